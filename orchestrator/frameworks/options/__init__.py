"""The options that training programs accept: read from their source, or recorded."""
