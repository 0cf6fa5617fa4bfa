"""What a model's known structure lets be computed without asking its rows.

Reading order:

    averaged       v(S) of all coalitions, means over donors on the device; few exponentials
    crossed        a few coalitions of every instance against all distinct donors
    listed_means   a list of coalitions by a layer that adds, with the mean over donors
    drawn          draws that each have an instance and a donor of their own, by an additive layer
    named          sums of products that a trace shows by name, and the layer of each
    factors        the factors of such sums, at sub-coalitions: half tables, reached leaves
    summed         a layer that is a sum over players of parts: convolutions, declared splits
    first_layer    a dense first layer along an order of players, as one cumulative sum
    sums           the sub-coalitions of layers that add, by tables of sums
    closed_forms   semivalues against all donors in closed form: sums over columns, boxes
    leaves         what leaves of trees pay each player, by the bounds that are broken
    base           the contract: `Structure`, `Layer` with all its members, and `Columnwise`
"""
