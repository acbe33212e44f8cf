"""Published auditing of interval queries with exact answers: what refusals prevent, and what they do not."""
