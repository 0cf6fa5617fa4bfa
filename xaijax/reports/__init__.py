"""HTML pages that show an explanation and how it was made.

page.html.j2 is shared by all pages, page.css has their style, page.js their behaviour if scripts
run; parts.html.j2 has a macro for each part of a page.

Reading order:

    transparency   QII for one person, or for two compared, in plain words
    collinearity   an AEC ranking next to a Shapley ranking
    comparison     what changed between two explanations
    rules          the rules of Anchors
    report         one page for any Explanation
    page           shared by pages: templates, heads, tables, pictures, single instances
"""
