"""`python -m tinyllm` is the command line (chapter 12)."""
from tinyllm.cli import main
main()
