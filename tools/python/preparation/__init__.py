"""The parts of prepare_data.py: documents, chat templates, tokens, rows, and the file."""
