"""What makes the site's pages, before mkdocs turns them into HTML. Run by `make docs`.

The pages stand in `build/pages` as they stand in the repository, so that a link that leads
somewhere on GitHub leads to the same page here. Nothing that is made is committed.

Reading order:

    __main__      the command line: `python -m site_build`
    pages         all pages into one folder, and their links
    notebooks     a stored notebook as Markdown, with its pictures
    gallery       `examples/`: each picture is drawn, each script is a page
    api           pages of all public names, by room
    names         the public names, and which examples use them
    runtime_text  docstrings as they are at run time, for mkdocstrings
"""
