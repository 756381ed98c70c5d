"""Other harnesses' files: runs written in their per-sample forms, their prediction files read as runs of ours.

Files only: no other harness is imported, and nothing here reads a video or asks a model.

- :mod:`parts` what one export file is about, whatever its form; :mod:`question_runs` and :mod:`caption_runs` read it
  from a run folder; :mod:`lmms_eval` and :mod:`inspect_log` write it.
- :mod:`replies` a reply as somebody else's file holds it; :mod:`vlmevalkit` and :mod:`lmms_eval` read them;
  :mod:`matching` finds each reply's question; :mod:`imports` makes the run folder.
"""
