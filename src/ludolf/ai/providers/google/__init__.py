"""Google Gemini and Vertex AI."""
