#!/bin/sh
# Send one prompt to Ludolf from a shell, with jq.
#
#     sh ask.sh "what is in this folder?" [options of ludolf]
#
# The answer goes to stdout, tool calls go to stderr. Ctrl-C aborts the run; the session is kept.
# Exit code: 0 with an answer, 1 without one, 130 after an abort.
set -u
message=${1:?usage: ask.sh MESSAGE [options of ludolf]}
shift

pipes=$(mktemp -d)
trap 'rm -r "$pipes"' EXIT
mkfifo "$pipes/in" "$pipes/out" "$pipes/seen"
ludolf --mode rpc --rpc-dialect pi-delta "$@" <"$pipes/in" >"$pipes/out" &
ludolf=$!
# jq turns frames into lines of a word, a tab and a text with the escapes of printf %b (\n \t \r \\).
jq -r --unbuffered '
  if .type == "response" and (.success | not) then ["fail", .error], ["end", "1"]
  elif .type == "response" and .data.disposition? == "handled" then ["end", "0"]
  elif .type == "message_update" then
    .assistantMessageEvent |
    if .type == "text_delta" then ["text", .delta]
    elif .type == "text_end" then ["text", "\n"]
    else empty end
  elif .type == "message_end" and .message.role == "assistant" then
    .message | ["stop", .stopReason], (.errorMessage | strings | ["fail", .])
  elif .type == "tool_execution_start" then ["note", "[\(.toolName) \(.args | tojson)]"]
  elif .type == "extension_ui_request" then
    ["send", ({type: "extension_ui_response", id, cancelled: true} | tojson)]
  elif .type == "agent_settled" then ["end", ""]
  else empty end | @tsv' <"$pipes/out" >"$pipes/seen" &

exec 3>"$pipes/in" 4<"$pipes/seen"
trap '' PIPE
send() { printf '%s\n' "$1" >&3; } 2>/dev/null
tab=$(printf '\t')
# Act on the lines of jq; returns the exit code.
show() {
  code=0
  while IFS=$tab read -r word text; do
    case $word in
      text) printf '%b' "$text" ;;
      note) printf '%b\n' "$text" >&2 ;;
      fail) printf '%b\n' "$text" >&2 ;;
      send) send "$(printf '%b' "$text")" ;;
      stop) case $text in error) code=1 ;; aborted) code=130 ;; *) code=0 ;; esac ;;
      end) return "${text:-$code}" ;;
    esac
  done
  return 1 # the program ended early; the reason is on stderr
}

send "$(jq -nc --arg text "$message" '{id: "1", type: "prompt", message: $text}')"
trap 'send "{\"type\":\"abort\"}"' INT
# A shell that is about to block in `read` runs no trap until a line arrives. `wait` has no such
# gap, so a background job reads, and this shell waits for it.
{
  show <&4
  echo $? >"$pipes/code"
} &
reader=$!
while kill -0 "$reader" 2>/dev/null; do wait "$reader"; done
exec 3>&- # orderly shutdown: close stdin, read stdout to its end
cat <&4 >/dev/null
wait "$ludolf"
exit "$(cat "$pipes/code")"
