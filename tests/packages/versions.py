"""Packages of others that must run, at tested versions, and the pi that they are compared with."""

PI = "0.87.1"
JITI = "2.7.0"
PACKAGES = {
    "@0xkobold/pi-orchestration": "0.3.0",
    "@aliou/pi-processes": "0.12.0",
    "@gordonb/pi-memory-blocks": "0.3.0",
    "@hyperprior/pi-subagent": "0.1.0",
    "@hyperprior/pi-todo": "0.1.0",
    "@juicesharp/rpiv-advisor": "2.11.0",
    "@marcfargas/pi-heartbeat": "0.0.1",
    "@ollama/pi-web-search": "0.0.5",
    "@samfp/pi-memory": "1.5.0",
    "@tintinweb/pi-subagents": "0.14.1",
    "pi-agent-suite": "2.11.2",
    "pi-btw": "0.4.1",
    "pi-claude-bridge": "0.6.3",
    "pi-docparser": "4.0.0",
    "pi-fff": "0.1.12",
    "pi-lens": "3.8.73",
    "pi-llm-wiki": "0.1.0",
    "pi-markdown-preview": "0.16.0",
    "pi-mcp-adapter": "2.36.0",
    "pi-openrouter-realtime": "0.3.7",
    "pi-plan-mode": "0.2.4",
    "pi-prompt-template-model": "0.12.2",
    "pi-provider-litellm": "3.1.0",
    "pi-sandbox": "0.4.3",
    "pi-schedule-prompt": "0.4.1",
    "pi-subagents": "0.67.0",
    "pi-unified-exec": "0.11.0",
    "pi-web-access": "0.28.0",
}
