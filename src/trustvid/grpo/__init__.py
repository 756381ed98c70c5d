"""Group-relative policy optimisation: rewards, advantages and losses as pure functions, and estimators of m*."""
