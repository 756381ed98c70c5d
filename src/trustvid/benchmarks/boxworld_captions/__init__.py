"""BoxWorld as a caption benchmark: instructions over all 27 constraint types, checklists and responses of known truth.

A clip's scene is known exactly, so is what a response says that is composed from it: every instruction comes with the
right answers, and with responses that violate one named constraint and no other. Judges are measured on them.
"""
