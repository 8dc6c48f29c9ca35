"""One client under load in a separate process, so that its processor time can be measured."""
