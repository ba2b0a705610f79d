"""The site out of the chapters and the package.

In:   docs/*.md, docs/assets/, tinyllm/, mkdocs.yml
Out:  site/, whole or not at all (python -m tools.site); the same pages while one writes (mkdocs serve)

Each module imports those above it:

    figures, maths      an output's figure as files; TeX as MathML
    pieces              which chapter and which pieces a module is made of, and the links between them
    drawing/            the architecture as SVG, out of the model; the strip at the top of every chapter
    playground          the trained model for the browser
    notebook            a chapter as a notebook; what of it may be published
    watch/              loaded by every process of a chapter: notes what it reads
    reads               what a chapter read, and whether it still says the same
    kernel              one run of a chapter
    store               the outputs of earlier runs
    progress, schedule  which chapters run, in which order, how far they are
    render              an executed chapter as a page
    serve               the same while one writes: pages at once, chapters behind them
    hooks               MkDocs' events: calls the others (mkdocs.yml names it)
    publish, __main__   the whole build, and the site put in its place
    templates/, theme/  what mkdocs-jupyter and Material take from us
"""
