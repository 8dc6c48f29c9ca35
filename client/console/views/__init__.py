"""Documents, filters, forms and wording of the console's pages."""
