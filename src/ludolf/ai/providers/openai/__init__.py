"""OpenAI Chat Completions, Responses, and services that speak them."""
