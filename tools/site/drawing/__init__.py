"""The drawing of the architecture, out of the model itself.

In:   a TinyLLM: its parts, in the order of print(model), and a trace of it
Out:  docs/assets/drawing/*.svg, each light and dark (python -m tools.site.drawing); a strip on every chapter

    parts       what is to be drawn: name, kind, sizes, shape and parameters, read from the model
    scene       what a drawing is made of: boxes, wires, words, each at its place
    column      what stands where: the residual stream from top to bottom, and what is added to it
    layout      the pictures of the whole model and of a block
    head        one attention head, its tensors as wide and as high as they are
    small       windows and targets; the loop of generation
    svg         how a scene is drawn, in light or dark
    pictures, __main__  the files: every picture, light and dark
    strip       "you are here", at the top of every chapter: HTML, and no model needed
"""
