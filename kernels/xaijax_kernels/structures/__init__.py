"""Computes from a model's known structure what would otherwise need calls of the model.

Reading order:

    averaged       v(S) of all coalitions, means over donors on the device; few exponentials
    crossed        a few coalitions of every instance against all distinct donors
    listed_means   a list of coalitions by a layer that adds, with the mean over donors
    drawn          draws with their own instance and donor, by an additive layer
    named          sums of products that are named functions in a trace, and their layers
    prefixes       a fold over segments: coalitions share the states of their common prefixes
    products       values of products of Gaussians, by quadrature
    factors        the factors of such sums, at sub-coalitions: half tables, reached leaves
    summed         a layer that is a sum over players of parts: convolutions, declared splits
    first_layer    a dense first layer along an order of players, as one cumulative sum
    sums           the sub-coalitions of layers that add, by tables of sums
    closed_forms   semivalues against all donors in closed form: sums over columns
    paths          path-dependent values of trees, by the covers of their nodes
    forests        forests with many leaves: walking trees, values by tables of parts
    pairs          leaves with many players, by the rows and donors that reach them
    parts          the layout of trees for these values: tests, paths, parts of few bits
    leaves         what leaves of trees contribute to each set of players, by failed tests
    nodes          the nodes of trees, and walking full rows
    base           the contract: `Structure`, `Layer` with all its members, and `Columnwise`
"""
