"""Anchors: IF-THEN rules that hold a model's prediction.

Reading order:

    explainer   `AnchorExplainer`: explain, and evaluate a rule of one's own
    evaluate    the precision and coverage of a rule that a person gives
    search      the searches, round by round, for all instances that are not done
    support     rules that no data row satisfies, refused by name
    choice      which search "auto" is
    widening    accepted rules made wider while they hold
    record      from what a search found to `Rules`
    problem     the arguments of an `AnchorExplainer` as read, and the games made of them
    settings    the arguments of `explain`, read and checked
"""
