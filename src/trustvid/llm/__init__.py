"""One chat client for judges, policies and writers, and a store of replies, so that no reply is paid for twice.

``messages`` (what is asked and answered), ``settings`` (what a config says), ``client`` (an OpenAI-compatible server),
``local`` (a transformers model in this process), ``store`` and ``stored`` (replies on disk, replay), ``dialogue`` (ask
again until a reply can be read), ``prompting`` (prompt files).
"""
