"""Anchors: IF-THEN rules that hold a model's prediction.

Reading order:

    explainer   `AnchorExplainer`: explain, and evaluate a rule of one's own
    evaluate    the precision and coverage of a rule that a person gives
    choice      which search "auto" is
    support     rules that no data row satisfies, refused by name
    record      from what a search found to `Rules`
    search      the searches, round by round, for all instances that are not done
    widening    accepted rules made wider while they hold
    problem     the arguments of an `AnchorExplainer` as read, and the games made of them
    settings    the arguments of `explain`, read and checked
"""
