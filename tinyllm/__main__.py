from tinyllm.cli import main  # `python -m tinyllm` is the command line (appendix 6)
main()
