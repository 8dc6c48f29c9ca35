"""What pages of the console show and understand: documents, filters, forms, wording."""
