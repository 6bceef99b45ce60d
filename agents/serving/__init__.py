"""Replies from vLLM servers: launching them, talking to them, giving them the learner's weights. Nothing here imports vLLM or torch."""
