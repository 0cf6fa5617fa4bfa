"""The results that the user gets, frozen: they hold no model and no game.

Reading order:

    same_question         whether interactions belong to an Explanation, in a report
    merge                 `merge`: one Explanation of instances that were explained separately
    wording               what a QII report may say about its numbers, in plain words
    background            `Background`: chosen rows; `BackgroundSpread`: the effect of the choice
    comparison            `Comparison`: what changed between two explanations
    judgement             `Judgement`: how far an attribution is from the truth
    profiles              people's inputs, as texts next to their influences
    coalition_table       `CoalitionTable`: v(S) of every coalition, and indices that read it
    interactions          `Interactions`: values of sets of players
    explanation           `Explanation`: values of many instances, with errors and provenance
    fingerprint           `Fingerprint`: the model, rows and question of values
    top                   `TopK`: the players of the largest |value|, and which are certain
    private_explanation   `PrivateExplanation`: values with noise, and public facts
    subsample             `Subsample`: rows drawn for a private release, and how
    recount               how the sums of an Explanation are counted again, in whole numbers
    rules                 `Rule` and `Rules`: the results of Anchors
    result_html           an Explanation, Interactions and a private copy as a notebook shows them
    plan                  `Plan`: what a run would ask of its model
    summary               what an Explanation says of itself in a few lines
    set_keys              which sets of players a key means
    guest_worth           `GuestWorth`: what the parties of a split table contribute
    convert               converts an Explanation for pandas, shap and shapiq
    describe_question     the question, and what a value means, by the facts of the provenance
    shared_fields         what results of N instances have in common, whatever their values are of
    selection             what `explanation[...]` means
    files/                results in a file, and back
"""
