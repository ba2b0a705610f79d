"""Chapters to package and back.

In:   docs/*.md, tinyllm/*.py, tangled.sha256 (which of the two was edited since)
Out:  tinyllm/*.py and tangled.sha256, or docs/*.md; or one message with file and line, and nothing changed

    python -m tools.chapters tangle | check | stitch | prefix K DIR

Each module imports those above it:

    read      one chapter: its blocks, and the first thing in it that would go wrong later
    book      all chapters: which files are chapters, and what only shows across them
    tangle    what the chapters give, line by line, through Entangled; a beginning of the book
    record    the two sides beside each other, and which was edited
    write     all files of one change, or none
    stitch    edits of the package carried back to the chapters
    __main__  the commands
"""
