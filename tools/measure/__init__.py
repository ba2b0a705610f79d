"""Measurements: programs for whoever changes the model, none of them part of the build.

In:   the package, its tests, texts to train on
Out:  files that chapters and pages read (docs/assets/*.json, moments of the training, the cover), constraints.txt, a report

    peers        the networks and optimizers that bench and ablation compare with
    timing       what a step costs: time, memory, growth
    bench        the model beside its peers          -> docs/assets/bench.json     (make bench)
    ablation     one choice of the recipe changed at a time -> docs/assets/ablation.json  (make ablation)
    scaling      several sizes trained for the same compute -> docs/assets/scaling.json    (make scaling)
    keys         from a key in the playground to the finished picture, in Chromium        (make keys)
    weights      the weights of the package, and the record of their training      (make weights)
    cover        the picture on the cover, out of the shipped weights
    mutants      does a test notice each small change of the code?                 (make mutants)
    pins         the exact versions: constraints.txt
"""
