"""Captions that must follow instructions: the constraint taxonomy, checklists, and the rules that check them."""
