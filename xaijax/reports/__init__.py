"""HTML pages that tell what an explanation says and how it was made.

Reading order:

    transparency   QII for one person, or for two compared, in plain words
    collinearity   an AEC ranking beside a Shapley ranking
    comparison     what changed between two explanations
    report         one page for any Explanation
    page           the templates beside these files, filled and written; pictures inside pages
"""
