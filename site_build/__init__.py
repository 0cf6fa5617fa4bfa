"""Makes the site's pages, before mkdocs turns them into HTML. `make docs` runs it.

The folders in `build/pages` are those of the repository, so that a link leads to the same page as
on GitHub. No generated page is committed.

Reading order:

    __main__      the command line: `python -m site_build`
    pages         all pages into one folder, and their links
    notebooks     a stored notebook as Markdown, with its pictures
    outputs       what the code of a method's page draws and prints, above that code
    gallery       `examples/`: each picture is drawn, each script is a page
    api           pages of all public names, by room
    names         the public names, and which examples use them
    runtime_text  docstrings as they are at run time, for mkdocstrings
    hooks         the version, the repository and formulas, for mkdocs; `theme/` has the logo
"""
