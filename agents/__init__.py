"""Policy models, samplers, rollouts and the GRPO learner."""
