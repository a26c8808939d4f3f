"""OpenAI Chat Completions, Responses, and services with compatible APIs."""
