"""HTML pages that tell what an explanation says and how it was made.

page.html.j2 is what all pages share, page.css how they look, page.js what they do where scripts
run; parts.html.j2 has a macro for each part of a page.

Reading order:

    transparency   QII for one person, or for two compared, in plain words
    collinearity   an AEC ranking beside a Shapley ranking
    comparison     what changed between two explanations
    rules          the rules of Anchors
    report         one page for any Explanation
    page           what pages share: templates, heads, tables, pictures, single instances
"""
