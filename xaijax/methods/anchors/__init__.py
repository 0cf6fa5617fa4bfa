"""Anchors: IF-THEN rules that hold a model's prediction.

Reading order:

    explainer   `AnchorExplainer`: explain, and evaluate a given rule
    evaluate    the precision and coverage of a rule that the user gives
    search      the searches, round by round, for all instances that are not done; `Rules`
    widening    accepted rules made wider while they hold
    problem     the arguments of an `AnchorExplainer` as read, and the games made of them
    settings    the arguments of `explain`, read and checked; which search "auto" is
"""
