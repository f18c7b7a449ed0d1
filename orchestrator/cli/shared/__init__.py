"""What several commands share: options, formats, messages and the opened campaign."""
