"""What makes the book out of its chapters, in three rooms; tools/README.md is the plan of the house."""
