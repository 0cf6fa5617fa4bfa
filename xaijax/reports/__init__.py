"""HTML pages that tell what an explanation says and how it was made.

Reading order:

    transparency   QII for one person, or for two compared, in plain words
    collinearity   an AEC ranking beside a Shapley ranking
    comparison     what changed between two explanations
    rules          the rules of Anchors
    report         one page for any Explanation
    instances      the instances of a page one at a time
    about          the head of a page: model, date, background, and what a value means
    page           the templates beside these files, filled and written; tables, pictures
"""
