from tinyllm.cli import main  # `python -m tinyllm` is the command line (chapter 12)
main()
