// Frames of ludolf --mode rpc: one JSON object a line, both ways. Made by scripts/make_schema.py.
// `Command` is what a host sends, in every dialect; `Frames[D]` is what it reads in the dialect D;
// `Answers[C]` is the `data` of the reply to the command C. `ludolf schema --typescript` prints it.
// A client of ludolf serve sends `ServerCommand` and reads `ServerFrame`; `ServerAnswers[C]` is the
// `data` of replies to the commands that only the server has.

/** `streamingBehavior` is required while the agent runs. `outputSchema` is a JSON Schema: the answer is a value that fits it, in `structured_output`. */
export interface AbortAndPromptCommand {
  type: "abort_and_prompt";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  message: string;
  images?: ImageInput[] | null;
  attachments?: Attachment[] | null;
  streamingBehavior?: "followUp" | "steer" | null;
  outputSchema?: Record<string, unknown> | null;
  traceparent?: string | null;
  tracestate?: string | null;
  baggage?: string | null;
}

export interface AbortAndPromptResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "abort_and_prompt";
  success: true;
  data: Accepted;
}

export interface AbortBashCommand {
  type: "abort_bash";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface AbortBashResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "abort_bash";
  success: true;
}

export interface AbortCommand {
  type: "abort";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface AbortResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "abort";
  success: true;
}

export interface AbortRetryCommand {
  type: "abort_retry";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface AbortRetryResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "abort_retry";
  success: true;
}

/** `handled`: a command handled the message, without a run. */
export interface Accepted {
  disposition: "handled" | "queued" | "started";
}

/** Last event of a run; `messages` are those of this run only. */
export interface AgentEnd {
  type: "agent_end";
  messages: Message[];
  willRetry: boolean;
}

/** Nothing automatic will follow; always the last event of a prompt. */
export interface AgentSettled {
  type: "agent_settled";
}

/** First event of a run; `traceparent` names its span if telemetry is on. */
export interface AgentStart {
  type: "agent_start";
  traceparent?: string;
}

/**
 * The run is over and prompts are welcome, but these agents will wake the session.
 *
 * Stands where AgentSettled would; that one comes when no agent is left to wait for.
 */
export interface AgentWaiting {
  type: "agent_waiting";
  jobs: string[];
}

/** A call is looked at. `args` are an object, unless the model gave something else. */
export interface AnyToolStart {
  type: "tool_execution_start";
  toolCallId: string;
  toolName: string;
  args: unknown;
}

export interface AssistantMessage {
  role: "assistant";
  content: Block[];
  api: string;
  provider: string;
  model: string;
  usage: Usage;
  stopReason: "aborted" | "error" | "length" | "stop" | "toolUse";
  timestamp: number;
  responseModel?: string;
  responseId?: string;
  errorMessage?: string;
  rawStopReason?: string;
  diagnostics?: Diagnostic[];
}

/**
 * Attach to a session. `cursor` is the last one seen; without it, or if its frames are gone,
 * the answer is a snapshot with the entries after `entry`, or the `last` ones.
 */
export interface AttachCommand {
  type: "attach";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  session: string;
  cursor?: unknown;
  entry?: string | null;
  last?: number;
  role?: "control" | "view";
  wait?: boolean | null;
  env?: Record<string, string> | null;
}

export interface AttachResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "attach";
  success: true;
  data: SessionAttached;
}

/** `behind` counts the frames that the client has not been sent yet. */
export interface AttachedClient {
  client: string;
  name: string | null;
  role: "control" | "view";
  behind: number;
}

export interface AttachedClients {
  clients: AttachedClient[];
}

/** An image as `content`, or a document with its `extractedText`: the form of early pi. */
export interface Attachment {
  type?: string | null;
  fileName?: string | null;
  mimeType?: string | null;
  content?: string | null;
  extractedText?: string | null;
}

/**
 * The source of credentials; no field is secret.
 *
 * `variables` are names; `expires` is in Unix milliseconds, of a login that ends.
 */
export interface AuthStatus {
  provider: string;
  origin: "command line" | "environment" | "extension" | "models.json" | "none" | "stored";
  usable: boolean;
  kind?: "api_key" | "identity" | "oauth";
  variables?: string[];
  expires?: number;
}

export interface AuthStatuses {
  providers: AuthStatus[];
}

/** `result` is null unless the compaction succeeded. */
export interface AutoCompactionEnd {
  type: "auto_compaction_end";
  action: "context-full";
  result: AutoCompactionResult | null;
  aborted: boolean;
  willRetry: boolean;
  errorMessage?: string;
}

export interface AutoCompactionResult {
  summary: string;
  shortSummary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  details: unknown;
}

/** The older part of the conversation is replaced by a summary. */
export interface AutoCompactionStart {
  type: "auto_compaction_start";
  reason: "overflow" | "threshold";
  action: "context-full";
}

export interface AutoRetryEnd {
  type: "auto_retry_end";
  success: boolean;
  attempt: number;
  finalError?: string;
}

export interface AutoRetryStart {
  type: "auto_retry_start";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  errorMessage: string;
}

export interface BashCommand {
  type: "bash";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: string;
  excludeFromContext?: boolean;
}

/** A shell command that the host ran has ended. */
export interface BashEnd {
  type: "bash_end";
  message: EarlyBashMessage;
}

/** A shell command that the host ran outside the conversation. */
export interface BashExecutionMessage {
  role: "bashExecution";
  command: string;
  output: string;
  exitCode?: number;
  cancelled: boolean;
  truncated: boolean;
  fullOutputPath?: string;
  excludeFromContext?: boolean;
  timestamp: number;
}

export interface BashResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "bash";
  success: true;
  data: BashResult;
}

export interface BashResult {
  output: string;
  exitCode?: number;
  cancelled: boolean;
  truncated: boolean;
  fullOutputPath?: string;
  totalLines?: number;
  totalBytes?: number;
  signal?: string;
  background?: LeftBehind[];
}

/** Output of a shell command that the host runs; `id` is that of the host's command. */
export interface BashUpdate {
  type: "bash_execution_update";
  id?: unknown;
  delta: string;
}

/** An answer that begins. */
export interface BegunMessage {
  role: "assistant";
  content: Block[];
  api: string;
  provider: string;
  model: string;
  usage: Usage;
  stopReason: "aborted" | "error" | "length" | "pending" | "stop" | "toolUse";
  timestamp: number;
  responseModel?: string;
  responseId?: string;
  errorMessage?: string;
  rawStopReason?: string;
  diagnostics?: Diagnostic[];
}

/** A message begins; an answer that has not failed yet is `pending`. */
export interface BegunStart {
  type: "message_start";
  message: UserMessage | BegunMessage | ToolResultMessage | BashExecutionMessage | CustomMessage | BranchSummaryMessage | CompactionSummaryMessage;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

export type Block = Text | Thinking | ToolCall;

export interface BranchCommand {
  type: "branch";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  entryId: string;
}

export interface BranchResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "branch";
  success: true;
  data: Forked;
}

export interface BranchSummary {
  type: "branch_summary";
  fromId: string;
  summary: string;
  details?: unknown;
  usage?: Usage;
  fromHook?: boolean;
  id: string;
  parentId: string | null;
  timestamp: string;
}

export interface BranchSummaryMessage {
  role: "branchSummary";
  summary: string;
  fromId: string | null;
  timestamp: number;
}

export interface CancelRequest {
  type: "extension_ui_request";
  id: string;
  method: "cancel";
  targetId: string;
  by?: string;
}

export interface CancelSubagentCommand {
  type: "cancel_subagent";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  subagentId: string;
}

export interface CancelSubagentResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "cancel_subagent";
  success: true;
  data: CancelledSubagent;
}

/** False if no such agent runs. */
export interface CancelledSubagent {
  cancelled: boolean;
}

export interface Capabilities {
  protocolVersion: number;
  program: string;
  version: string;
  dialects: string[];
  commands: string[];
  events: string[];
}

/**
 * A slice of a line that is longer than agreed; `data` is base64.
 *
 * Chunks of one line follow each other; joined they are the line.
 */
export interface Chunk {
  type: "rpc_chunk";
  chunkId: string;
  index: number;
  count: number;
  byteLength: number;
  data: string;
}

export interface ClearQueueCommand {
  type: "clear_queue";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface ClearQueueResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "clear_queue";
  success: true;
  data: Queued;
}

export interface ClientJoined {
  type: "client_joined";
  client: string;
  name: string | null;
  role: "control" | "view";
}

export interface ClientLeft {
  type: "client_left";
  client: string;
}

/** Without `session`: the current session of the connection. */
export interface ClientsCommand {
  type: "clients";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  session?: string | null;
}

export interface ClientsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "clients";
  success: true;
  data: AttachedClients;
}

export interface CloneCommand {
  type: "clone";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface CloneResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "clone";
  success: true;
  data: SessionChange;
}

/** Without `session`: the current session of the connection. */
export interface CloseCommand {
  type: "close";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  session?: string | null;
}

export interface CloseResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "close";
  success: true;
}

/** A completion of the arguments of a command: `value` replaces the typed text. */
export interface CommandCompletion {
  value: string;
  label: string;
  description?: string;
}

/** `items` in the order of the extension. */
export interface CommandCompletions {
  items: CommandCompletion[];
}

/** A command that a prompt may call with `/`. */
export interface CommandItem {
  name: string;
  description?: string;
  source: "builtin" | "extension" | "mcp" | "prompt" | "skill";
  sourceInfo?: SourceInfo;
  path?: string;
  location?: "path" | "project" | "user";
}

export interface CommandList {
  commands: CommandItem[];
}

/** The output of a prompt that is a command of the program, such as `/model`. */
export interface CommandOutput {
  type: "command_output";
  text: string;
}

/** The commands that a prompt may now call with `/`. */
export interface CommandsUpdate {
  type: "available_commands_update";
  commands: CommandItem[];
}

export interface CompactCommand {
  type: "compact";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  customInstructions?: string | null;
}

export interface CompactResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "compact";
  success: true;
  data: CompactionResult;
}

export interface Compaction {
  type: "compaction";
  summary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  details?: unknown;
  usage?: Usage;
  fromHook?: boolean;
  id: string;
  parentId: string | null;
  timestamp: string;
}

/** `result` is null unless the compaction succeeded. */
export interface CompactionEnd {
  type: "compaction_end";
  reason: "manual" | "overflow" | "threshold";
  result: CompactionResult | null;
  aborted: boolean;
  willRetry: boolean;
  errorMessage?: string;
}

export interface CompactionResult {
  summary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  estimatedTokensAfter?: number;
  usage?: Usage;
  details?: unknown;
}

export interface CompactionStart {
  type: "compaction_start";
  reason: "manual" | "overflow" | "threshold";
}

export interface CompactionSummaryMessage {
  role: "compactionSummary";
  summary: string;
  tokensBefore: number;
  timestamp: number;
}

/** `prefix` is the text between the name of the command and the cursor. */
export interface CompleteCommandCommand {
  type: "complete_command";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  name: string;
  prefix?: string;
}

export interface CompleteCommandResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "complete_command";
  success: true;
  data: CommandCompletions | null;
}

/** The model and its level, after a command in a prompt changed them. */
export interface ConfigUpdate {
  type: "config_update";
  model: Model;
  thinkingLevel: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
}

export interface ConfirmRequest {
  type: "extension_ui_request";
  id: string;
  method: "confirm";
  title: string;
  message: string;
  timeout?: number;
}

/** The files that the model gets as instructions; sent at first use and after each change. */
export interface ContextFilesUsed {
  type: "context_files";
  paths: string[];
}

/** Size of the context; an estimate before the first request. */
export interface ContextFill {
  tokens: number;
  contextWindow: number;
  percent: number;
}

/** The size of the context of an answer, in tokens. */
export interface ContextSnapshot {
  promptTokens: number;
  nonMessageTokens: number;
}

/** Use of the context window; unknown from a compaction to the next successful answer. */
export interface ContextUsage {
  tokens: number | null;
  contextWindow: number;
  percent: number | null;
}

export interface Conversation {
  messages: StoredMessage[];
}

/** `nextCursor` leads to the next page, if there is one. */
export interface ConversationPage {
  messages: StoredMessage[];
  nextCursor?: string;
  totalMessages: number;
}

/** US dollars. */
export interface Cost {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
}

export interface CostTier {
  inputTokensAbove: number;
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
}

export interface CustomEntry {
  type: "custom";
  customType: string;
  data?: unknown;
  id: string;
  parentId: string | null;
  timestamp: string;
}

/** A message that an extension added to the conversation. */
export interface CustomMessage {
  role: "custom";
  customType: string;
  content: string | Part[];
  display: boolean;
  details?: unknown;
  timestamp: number;
}

export interface CustomMessageEntry {
  type: "custom_message";
  customType: string;
  content: string | Part[];
  display: boolean;
  details?: unknown;
  id: string;
  parentId: string | null;
  timestamp: string;
}

export interface CycleModelCommand {
  type: "cycle_model";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface CycleModelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "cycle_model";
  success: true;
  data: CycledModel | null;
}

export interface CycleThinkingLevelCommand {
  type: "cycle_thinking_level";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface CycleThinkingLevelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "cycle_thinking_level";
  success: true;
  data: CycledLevel | null;
}

export interface CycledLevel {
  level: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
}

/** `isScoped`: chosen among those of `--models`. */
export interface CycledModel {
  model: Model;
  thinkingLevel: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
  isScoped: boolean;
}

export interface DeleteSessionCommand {
  type: "delete_session";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  sessionPath: string;
}

export interface DeleteSessionResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "delete_session";
  success: true;
  data: Trashed;
}

/** Without `session`: the current session of the connection. */
export interface DetachCommand {
  type: "detach";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  session?: string | null;
}

export interface DetachResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "detach";
  success: true;
}

/** A reminder that the program itself put into the conversation. */
export interface DeveloperMessage {
  role: "developer";
  content: Part[];
  attribution: "agent";
  timestamp: number;
}

/** Facts about an answer for support; not part of the answer. */
export interface Diagnostic {
  type: string;
  timestamp: number;
  error?: unknown;
  details?: unknown;
}

export interface DumpedTool {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}

/** The end of a prompt, with the messages of its last run. */
export interface EarlyAgentEnd {
  type: "agent_end";
  messages: Message[];
}

/** The exit code is null where the command was aborted. */
export interface EarlyBashMessage {
  role: "bashExecution";
  command: string;
  output: string;
  exitCode: number | null;
  cancelled: boolean;
  truncated: boolean;
  fullOutputPath?: string;
  excludeFromContext?: boolean;
  timestamp: number;
}

/** The older part of the conversation was replaced by a summary; `auto`: not by command. */
export interface EarlyCompaction {
  type: "compaction";
  timestamp: string;
  summary: string;
  firstKeptEntryIndex: number;
  tokensBefore: number;
  auto?: boolean;
}

/** An error, perhaps of a command; the command is not named. */
export interface EarlyError {
  type: "error";
  error: string;
}

/** The result of a failed call is its text. */
export interface EarlyToolEnd {
  type: "tool_execution_end";
  toolCallId: string;
  toolName: string;
  result: string | ToolOutput;
  isError: boolean;
}

/** The piece with the whole answer so far, twice. */
export interface EarlyUpdate {
  type: "message_update";
  assistantMessageEvent: WholePiece;
  message: AssistantMessage;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

export interface EditorRequest {
  type: "extension_ui_request";
  id: string;
  method: "editor";
  title: string;
  prefill?: string;
}

/** `leafId` is the present place; null in an empty session. `more`: older entries exist. */
export interface Entries {
  entries: StoredEntry[];
  leafId: string | null;
  more?: true;
}

/** An extension wrote an entry into the session. */
export interface EntryAppended {
  type: "entry_appended";
  entry: StoredEntry;
}

/** The types of events that are sent from now on; null: all. */
export interface EventFilter {
  events: string[] | null;
  usage?: "all" | "changes";
}

/** `event` is any event of the agent's own session; a dialect writes it as it writes its own. */
export interface EventPayload {
  id: string;
  event: unknown;
}

export interface ExactAbortAndPromptResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "abort_and_prompt";
  success: true;
}

/** A command that a prompt may call with `/`. */
export interface ExactCommandItem {
  name: string;
  description?: string;
  source: "extension" | "prompt" | "skill";
  sourceInfo: SourceInfo;
}

export interface ExactCommandList {
  commands: ExactCommandItem[];
}

export interface ExactCycleModelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "cycle_model";
  success: true;
  data: ExactCycledModel | null;
}

export interface ExactCycleThinkingLevelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "cycle_thinking_level";
  success: true;
  data: ExactCycledLevel | null;
}

export interface ExactCycledLevel {
  level: "high" | "low" | "medium" | "minimal" | "off" | "xhigh";
}

/** `isScoped`: chosen among those of `--models`. */
export interface ExactCycledModel {
  model: Model;
  thinkingLevel: "high" | "low" | "medium" | "minimal" | "off" | "xhigh";
  isScoped: boolean;
}

export interface ExactFollowUpResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "follow_up";
  success: true;
}

export interface ExactForkResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "fork";
  success: true;
  data: ExactForked;
}

/** `text` is the message that the new session ends before; missing if it was cancelled. */
export interface ExactForked {
  cancelled: boolean;
  text?: string;
}

export interface ExactGetAvailableThinkingLevelsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_available_thinking_levels";
  success: true;
  data: ExactLevels;
}

export interface ExactGetCommandsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_commands";
  success: true;
  data: ExactCommandList;
}

export interface ExactGetLastAssistantTextResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_last_assistant_text";
  success: true;
  data: ExactLastText;
}

export interface ExactGetStateResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_state";
  success: true;
  data: ExactState;
}

/** `text` is missing before the first answer. */
export interface ExactLastText {
  text?: string;
}

export interface ExactLevels {
  levels: ("high" | "low" | "medium" | "minimal" | "off" | "xhigh")[];
}

export interface ExactPromptResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "prompt";
  success: true;
}

/** `model` has the id `unknown` when none is selected. */
export interface ExactState {
  model: Model;
  thinkingLevel: "high" | "low" | "medium" | "minimal" | "off" | "xhigh";
  isStreaming: boolean;
  isCompacting: boolean;
  steeringMode: "all" | "one-at-a-time";
  followUpMode: "all" | "one-at-a-time";
  sessionFile?: string;
  sessionId: string;
  sessionName?: string;
  autoCompactionEnabled: boolean;
  messageCount: number;
  pendingMessageCount: number;
  todoPhases?: TodoPhase[];
  hasPendingAsyncWork?: boolean;
  fastModeEnabled?: boolean;
  fastModeActive?: boolean;
}

export interface ExactSteerResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "steer";
  success: true;
}

/** The piece with the whole answer so far, twice. */
export interface ExactUpdate {
  type: "message_update";
  assistantMessageEvent: WholePiece;
  message: AssistantMessage;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

export interface ExportHtmlCommand {
  type: "export_html";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  outputPath?: string | null;
}

export interface ExportHtmlResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "export_html";
  success: true;
  data: Exported;
}

export interface Exported {
  path: string;
}

export interface ExtensionError {
  type: "extension_error";
  extensionPath: string;
  event: string;
  error: string;
}

/** `value` for a choice or a text, `confirmed` for yes and no; `cancelled` dismisses. */
export interface ExtensionUiResponseCommand {
  type: "extension_ui_response";
  id: string;
  value?: string;
  confirmed?: boolean;
  cancelled?: boolean;
}

/** `result` is missing unless the compaction succeeded. */
export interface FailedCompactionEnd {
  type: "compaction_end";
  reason: "manual" | "overflow" | "threshold";
  aborted: boolean;
  willRetry: boolean;
  errorMessage?: string;
  result?: CompactionResult;
}

/** A command was refused; `command` is `parse` if the line was none. */
export interface FailedResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: string;
  success: false;
  /** For people. */
  error: string;
  /** For programs: see docs/protocol.md. */
  code?: string;
}

/** `active`: wanted, and the current model has it. */
export interface FastMode {
  enabled: boolean;
  active: boolean;
}

/** `path` is relative to the working folder, with slashes. */
export interface FileMatch {
  path: string;
  isDirectory: boolean;
}

/** Without a query, the paths nearest to the working folder. */
export interface FindFilesCommand {
  type: "find_files";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  query?: string;
  limit?: number;
}

export interface FindFilesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "find_files";
  success: true;
  data: FoundFiles;
}

export interface FollowUpCommand {
  type: "follow_up";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  message: string;
  images?: ImageInput[] | null;
  traceparent?: string | null;
  tracestate?: string | null;
  baggage?: string | null;
}

export interface FollowUpResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "follow_up";
  success: true;
  data: Accepted;
}

/** Without `session`: the session that was opened or attached last. */
export interface ForSession {
  /** The id of the session. */
  session?: string;
}

export interface ForkCommand {
  type: "fork";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  entryId: string;
}

/** A user message before which a fork can start. */
export interface ForkMessage {
  entryId: string;
  text: string;
}

export interface ForkMessages {
  messages: ForkMessage[];
}

export interface ForkResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "fork";
  success: true;
  data: Forked;
}

/** `text` is the message that the new session ends before. */
export interface Forked {
  text: string;
  cancelled: boolean;
}

/** The best match first. */
export interface FoundFiles {
  files: FileMatch[];
}

export interface GetAuthStatusCommand {
  type: "get_auth_status";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetAuthStatusResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_auth_status";
  success: true;
  data: AuthStatuses;
}

export interface GetAvailableCommandsCommand {
  type: "get_available_commands";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetAvailableCommandsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_available_commands";
  success: true;
  data: CommandList;
}

export interface GetAvailableModelsCommand {
  type: "get_available_models";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetAvailableModelsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_available_models";
  success: true;
  data: Models;
}

export interface GetAvailableThinkingLevelsCommand {
  type: "get_available_thinking_levels";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetAvailableThinkingLevelsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_available_thinking_levels";
  success: true;
  data: Levels;
}

export interface GetBranchMessagesCommand {
  type: "get_branch_messages";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetBranchMessagesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_branch_messages";
  success: true;
  data: ForkMessages;
}

export interface GetCapabilitiesCommand {
  type: "get_capabilities";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetCapabilitiesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_capabilities";
  success: true;
  data: Capabilities;
}

export interface GetCommandsCommand {
  type: "get_commands";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetCommandsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_commands";
  success: true;
  data: CommandList;
}

/** `since`: of all branches, in file order. `before` and `limit`: a page of the active path. */
export interface GetEntriesCommand {
  type: "get_entries";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  since?: string | null;
  before?: string | null;
  limit?: number | null;
}

export interface GetEntriesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_entries";
  success: true;
  data: Entries;
}

export interface GetForkMessagesCommand {
  type: "get_fork_messages";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetForkMessagesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_fork_messages";
  success: true;
  data: ForkMessages;
}

export interface GetIntegrationsCommand {
  type: "get_integrations";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetIntegrationsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_integrations";
  success: true;
  data: Integrations;
}

export interface GetLastAssistantTextCommand {
  type: "get_last_assistant_text";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetLastAssistantTextResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_last_assistant_text";
  success: true;
  data: LastText;
}

export interface GetLoginProvidersCommand {
  type: "get_login_providers";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetLoginProvidersResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_login_providers";
  success: true;
  data: LoginProviders;
}

export interface GetMcpServersCommand {
  type: "get_mcp_servers";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetMcpServersResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_mcp_servers";
  success: true;
  data: McpServers;
}

export interface GetMcpToolsCommand {
  type: "get_mcp_tools";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  name: string;
}

export interface GetMcpToolsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_mcp_tools";
  success: true;
  data: McpTools;
}

export interface GetMessagesCommand {
  type: "get_messages";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetMessagesPageCommand {
  type: "get_messages_page";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  cursor?: string | null;
  limit?: number | null;
}

export interface GetMessagesPageResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_messages_page";
  success: true;
  data: ConversationPage;
}

export interface GetMessagesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_messages";
  success: true;
  data: Conversation;
}

export interface GetSessionStatsCommand {
  type: "get_session_stats";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetSessionStatsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_session_stats";
  success: true;
  data: SessionStats;
}

export interface GetShortcutsCommand {
  type: "get_shortcuts";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetShortcutsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_shortcuts";
  success: true;
  data: Shortcuts;
}

export interface GetStateCommand {
  type: "get_state";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetStateResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_state";
  success: true;
  data: State;
}

/** Either field names the subagent; the file is read from `fromByte` on. */
export interface GetSubagentMessagesCommand {
  type: "get_subagent_messages";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  subagentId?: string | null;
  sessionFile?: string | null;
  fromByte?: number | null;
}

export interface GetSubagentMessagesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_subagent_messages";
  success: true;
  data: Transcript;
}

export interface GetSubagentsCommand {
  type: "get_subagents";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetSubagentsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_subagents";
  success: true;
  data: Subagents;
}

export interface GetTreeCommand {
  type: "get_tree";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface GetTreeResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_tree";
  success: true;
  data: Tree;
}

/** The new session and the document that it begins with. */
export interface HandedOver {
  cancelled: boolean;
  document?: string;
  sessionId?: string;
  sessionFile?: string;
  usage?: Usage;
}

/** Both names of the instructions are in use. */
export interface HandoffCommand {
  type: "handoff";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  customInstructions?: string | null;
  instructions?: string | null;
}

export interface HandoffResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "handoff";
  success: true;
  data: HandedOver;
}

/** The first line of `--mode json`, which has no replies. */
export interface Header {
  type: "session";
  version?: number;
  id: string;
  timestamp: string;
  cwd: string;
  parentSession?: string;
}

/**
 * The first command of a connection; over TCP it is required.
 *
 * `client` is a name that the client makes up for itself and uses again when it reconnects.
 * `bare`: frames come without `session` and `seq`, and those of the server itself not at all.
 */
export interface HelloCommand {
  type: "hello";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  client?: string | null;
  name?: string | null;
  token?: string | null;
  dialect?: string;
  bare?: boolean;
  protocol?: unknown;
}

export interface HelloResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "hello";
  success: true;
  data: Welcome;
}

/** A tool of the host; `parameters` is a JSON Schema. A hidden one is kept from the model. */
export interface HostTool {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
  label?: string | null;
  hidden?: boolean;
  readOnly?: boolean;
  timeoutMs?: number | null;
}

/**
 * The host is to run one of its tools; its answer names this id.
 *
 * With telemetry on, the trace context is that of the call.
 */
export interface HostToolCall {
  type: "host_tool_call";
  id: string;
  toolCallId: string;
  toolName: string;
  arguments: Record<string, unknown>;
  traceparent?: string;
  tracestate?: string;
}

/** A call was cancelled; a result that still arrives is ignored. */
export interface HostToolCancel {
  type: "host_tool_cancel";
  id: string;
  targetId: string;
}

/** `isError`: the result is an error. */
export interface HostToolContent {
  content: Part[];
  details?: unknown;
  isError?: boolean;
}

export interface HostToolNames {
  toolNames: string[];
}

/** With `isError` the texts are the error of the call. */
export interface HostToolResultCommand {
  type: "host_tool_result";
  id: string;
  result: HostToolContent;
  isError?: boolean;
}

/** The result so far; it replaces the one before. */
export interface HostToolUpdateCommand {
  type: "host_tool_update";
  id: string;
  partialResult: HostToolContent;
}

/** A request was cancelled; an answer that still arrives is ignored. */
export interface HostUriCancel {
  type: "host_uri_cancel";
  id: string;
  targetId: string;
}

/** The host is to read or write one of its documents; its answer names this id. */
export interface HostUriRequest {
  type: "host_uri_request";
  id: string;
  operation: "read" | "write";
  url: string;
  content?: string;
}

/** A document, in base64 for an image; with `isError`, `error` is the reason. */
export interface HostUriResultCommand {
  type: "host_uri_result";
  id: string;
  content?: string | null;
  contentType?: string | null;
  notes?: string[] | null;
  immutable?: boolean | null;
  isError?: boolean;
  error?: string | null;
}

/** Addresses that begin with `scheme://` are documents of the host. */
export interface HostUriScheme {
  scheme: string;
  description?: string | null;
  writable?: boolean;
  immutable?: boolean;
  timeoutMs?: number | null;
}

export interface HostUriSchemes {
  schemes: string[];
}

export interface Image {
  type: "image";
  data: string;
  mimeType: string;
}

/** An image in base64. */
export interface ImageData {
  data: string;
  mimeType: string;
  type?: "image";
}

export type ImageInput = ImageData | SourcedImage;

export interface ImageSource {
  type: "base64";
  data: string;
  mediaType: string;
}

export interface InputRequest {
  type: "extension_ui_request";
  id: string;
  method: "input";
  title: string;
  placeholder?: string;
  timeout?: number;
}

export interface Integrations {
  version: string;
  model: ModelService;
  services: (Record<string, unknown>)[];
}

/** Present if the prompt was a command of the program, so that the agent did not run. */
export interface Invoked {
  agentInvoked: boolean;
}

export interface Label {
  type: "label";
  targetId: string;
  label?: string;
  id: string;
  parentId: string | null;
  timestamp: string;
}

/** Null before the first answer. */
export interface LastText {
  text: string | null;
}

/** A process that a command started and that is still running after it. */
export interface LeftBehind {
  pid: number;
  name: string;
}

export interface Levels {
  levels: ("high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh")[];
}

export interface LifecyclePayload {
  id: string;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  description: string;
  status: "aborted" | "completed" | "failed" | "started";
  sessionFile: string;
  parentToolCallId: string;
  index: number;
  detached: boolean;
}

/** A limit of the prompt is used up: the run ends after this turn. Comes before its AgentEnd. */
export interface LimitReached {
  type: "limit_reached";
  limit: "cost" | "tokens" | "turns";
  used: number;
  maximum: number;
}

/** Limits of one prompt, follow-ups and retries included. A missing limit does not apply. */
export interface Limits {
  maxTurns?: number;
  maxTokens?: number;
  maxCost?: number;
}

/** `all`: sessions of every folder; else those that are loaded. */
export interface ListCommand {
  type: "list";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  all?: boolean;
}

export interface ListResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "list";
  success: true;
  data: SessionSummaries;
}

export interface ListSessionsCommand {
  type: "list_sessions";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  all?: boolean;
}

export interface ListSessionsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "list_sessions";
  success: true;
  data: Sessions;
}

export interface LoggedIn {
  providerId: string;
}

/** `removed`: there were stored credentials. */
export interface LoggedOut {
  providerId: string;
  removed: boolean;
}

/** Store a key, or start a login if there is none. `domain` is that of an enterprise. */
export interface LoginCommand {
  type: "login";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  providerId: string;
  method?: "api-key" | "device" | "oauth" | null;
  apiKey?: string | null;
  domain?: string | null;
}

/** A provider that a user can log in to. */
export interface LoginProvider {
  id: string;
  name: string;
  available: boolean;
  authenticated: boolean;
  methods: ("api-key" | "device" | "oauth")[];
}

export interface LoginProviders {
  providers: LoginProvider[];
}

export interface LoginResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "login";
  success: true;
  data: LoggedIn;
}

export interface LogoutCommand {
  type: "logout";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  providerId: string;
}

export interface LogoutResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "logout";
  success: true;
  data: LoggedOut;
}

/** `removed`: a login was stored. */
export interface McpLoggedOut {
  name: string;
  removed: boolean;
}

export interface McpLoginCommand {
  type: "mcp_login";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  name: string;
}

export interface McpLoginResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "mcp_login";
  success: true;
  data: McpServerAnswer;
}

export interface McpLogoutCommand {
  type: "mcp_logout";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  name: string;
}

export interface McpLogoutResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "mcp_logout";
  success: true;
  data: McpLoggedOut;
}

/** Without a name: all servers that run, failed or need a login. */
export interface McpReconnectCommand {
  type: "mcp_reconnect";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  name?: string | null;
}

export interface McpReconnectResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "mcp_reconnect";
  success: true;
  data: McpServers;
}

export interface McpServerAnswer {
  server: McpServerStatus;
}

/** The state of an MCP server changed. */
export interface McpServerChanged {
  type: "mcp_server";
  server: McpServerStatus;
}

/**
 * One MCP server. `known`: its tools are known from an earlier start, and it does not run.
 *
 * `tools`, `prompts` and `resources` are counts. `stderr` is the end of what it wrote there.
 */
export interface McpServerStatus {
  name: string;
  source: "extension" | "flag" | "host" | "project" | "user";
  path?: string;
  transport: "http" | "stdio";
  state: "disabled" | "failed" | "known" | "needs_login" | "ready" | "starting";
  exposure: "auto" | "deferred" | "direct" | "hidden";
  tools: number;
  prompts: number;
  resources: number;
  protocolVersion?: string;
  serverInfo?: Record<string, string>;
  pid?: number;
  error?: string;
  stderr?: string;
}

export interface McpServers {
  servers: McpServerStatus[];
}

/** A tool of an MCP server: its name for the model and for the server, and how it is shown. */
export interface McpToolStatus {
  name: string;
  tool: string;
  description: string;
  exposure: "auto" | "deferred" | "direct" | "hidden";
  inputSchema: Record<string, unknown>;
  readOnly?: boolean;
}

/** The tools of one server; the tools of a server that was never started are unknown. */
export interface McpTools {
  tools: McpToolStatus[];
}

export type Message = UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage | CustomMessage | BranchSummaryMessage | CompactionSummaryMessage;

/** A message is whole, and on disk. */
export interface MessageEnd {
  type: "message_end";
  message: Message;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

export interface MessageEntry {
  type: "message";
  id: string;
  parentId: string | null;
  timestamp: string;
  message: StoredMessage;
}

/** A message begins; an assistant's is empty unless it failed before its first token. */
export interface MessageStart {
  type: "message_start";
  message: Message;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

export interface Model {
  id: string;
  name: string;
  api: string;
  provider: string;
  baseUrl: string;
  reasoning: boolean;
  thinkingLevelMap?: Record<string, string | null>;
  input: ("image" | "text")[];
  inputLimits?: Record<string, unknown>;
  cost: ModelCost;
  promptCache?: Record<string, number>;
  contextWindow: number;
  maxTokens: number;
  samplingParams?: Record<string, unknown>;
  compat?: Record<string, unknown>;
}

export interface ModelChange {
  type: "model_change";
  provider: string;
  modelId: string;
  id: string;
  parentId: string | null;
  timestamp: string;
}

/** A command in a prompt chose another model. */
export interface ModelChanged {
  type: "model_changed";
}

/** US dollars per million tokens. */
export interface ModelCost {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  tiers?: CostTier[];
}

/** Whether there are credentials for the current model; no request is made. */
export interface ModelService {
  state: "auth_error" | "connected" | "no_provider";
  provider?: string;
}

export interface Models {
  models: Model[];
}

/** `text` is that of the selected user message, for editing. */
export interface Moved {
  cancelled: boolean;
  text?: string;
  summaryEntryId?: string;
}

export interface NavigateTreeCommand {
  type: "navigate_tree";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  targetId: string;
  summarize?: boolean;
  customInstructions?: string | null;
  replaceInstructions?: boolean;
  label?: string | null;
}

export interface NavigateTreeResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "navigate_tree";
  success: true;
  data: Moved;
}

export interface NegotiateProtocolCommand {
  type: "negotiate_protocol";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  protocolVersion?: 1 | 2;
}

export interface NegotiateProtocolResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "negotiate_protocol";
  success: true;
  data: Negotiated;
}

export interface Negotiated {
  protocolVersion: number;
}

export interface NewSessionCommand {
  type: "new_session";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  parentSession?: string | null;
}

export interface NewSessionResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "new_session";
  success: true;
  data: SessionChange;
}

/** Something could not be done as it should, or is worth to be known. */
export interface Notice {
  type: "notice";
  level: "info" | "warning";
  message: string;
  source: string;
}

export interface NotifyRequest {
  type: "extension_ui_request";
  id: string;
  method: "notify";
  message: string;
  notifyType?: "error" | "info" | "warning";
}

/** `seq` counts the frames of a session from 1, without gaps. */
export interface Numbered {
  /** The id of the session. */
  session: string;
  seq: number;
}

export type NumberedFrame = Numbered & (AgentStart | AgentEnd | TurnStart | TurnEnd | BegunStart | PieceUpdate | MessageEnd | AnyToolStart | ToolUpdate | ToolEnd | QueueUpdate | AgentSettled | AutoRetryStart | AutoRetryEnd | CompactionStart | FailedCompactionEnd | SummaryRetryScheduled | SummaryRetryStart | SummaryRetryFinished | SessionInfoChanged | ThinkingLevelChanged | EntryAppended | BashUpdate | LimitReached | ExtensionError | Warned | ContextFilesUsed | McpServerChanged | StructuredOutput | TodoReminder | TodoAutoClear | StreamRuleHit | CommandOutput | SessionInfoUpdate | ModelChanged | ConfigUpdate | AgentWaiting | SubagentLifecycle | SubagentProgress | SubagentEvent | Chunk | SelectRequest | ConfirmRequest | InputRequest | EditorRequest | NotifyRequest | SetStatusRequest | SetWidgetRequest | SetTitleRequest | SetEditorTextRequest | OpenUrlRequest | CancelRequest);

export interface OfSession {
  /** The id of the session. */
  session: string;
}

export interface OmpAbortAndPromptResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "abort_and_prompt";
  success: true;
  data?: Invoked;
}

/**
 * The end of a prompt, with the messages of its last run.
 *
 * `messageCount` is there where the list was cut for a host with small buffers.
 */
export interface OmpAgentEnd {
  type: "agent_end";
  messages: OmpMessage[];
  isTerminal?: boolean;
  messageCount?: number;
}

/** With times in milliseconds, and for a failed one the kind of failure as a number. */
export interface OmpAssistantMessage {
  role: "assistant";
  api: string;
  provider: string;
  model: string;
  usage: Usage;
  stopReason: "aborted" | "error" | "length" | "stop" | "toolUse";
  timestamp: number;
  responseModel?: string;
  responseId?: string;
  errorMessage?: string;
  rawStopReason?: string;
  diagnostics?: Diagnostic[];
  content: (Text | Thinking | OmpToolCall)[];
  errorId?: number;
  errorStatus?: number;
  stopDetails?: StopDetails;
  duration?: number;
  ttft?: number;
  contextSnapshot?: ContextSnapshot;
}

/** `meta` describes the part of a long output that was cut. */
export interface OmpBashMessage {
  role: "bashExecution";
  command: string;
  output: string;
  exitCode?: number;
  cancelled: boolean;
  truncated: boolean;
  fullOutputPath?: string;
  excludeFromContext?: boolean;
  timestamp: number;
  meta?: Record<string, unknown>;
}

export interface OmpBashResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "bash";
  success: true;
  data: OmpBashResult;
}

/** Sizes of the whole output and of the shown part; `artifactId` names the whole output. */
export interface OmpBashResult {
  output: string;
  exitCode?: number;
  cancelled: boolean;
  truncated: boolean;
  fullOutputPath?: string;
  totalLines: number;
  totalBytes: number;
  signal?: string;
  background?: LeftBehind[];
  outputLines: number;
  outputBytes: number;
  elidedLines?: number;
  elidedBytes?: number;
  artifactId?: string;
  workingDir: string;
}

export interface OmpCompactResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "compact";
  success: true;
  data: OmpCompaction;
}

export interface OmpCompaction {
  summary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  estimatedTokensAfter?: number;
  usage?: Usage;
  details: unknown;
  shortSummary: string;
}

export interface OmpCompactionSummary {
  role: "compactionSummary";
  summary: string;
  tokensBefore: number;
  timestamp: number;
  shortSummary: string;
}

export interface OmpConfigUpdate {
  type: "config_update";
  model: OmpModel;
  thinkingLevel: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
}

export interface OmpConversation {
  messages: OmpStoredMessage[];
}

export interface OmpConversationPage {
  messages: OmpStoredMessage[];
  nextCursor?: string;
  totalMessages: number;
}

export interface OmpCustomMessage {
  role: "custom";
  customType: string;
  content: string | Part[];
  display: boolean;
  details?: unknown;
  timestamp: number;
  attribution: "agent";
}

export interface OmpCycleModelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "cycle_model";
  success: true;
  data: OmpCycledModel | null;
}

export interface OmpCycledModel {
  model: OmpModel;
  thinkingLevel: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
  isScoped: boolean;
}

/** A command was refused; `command` is `parse` if the line was none. */
export interface OmpFailedResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command?: string;
  success: false;
  /** For people. */
  error: string;
  /** For programs: see docs/protocol.md. */
  code?: string;
}

export interface OmpFollowUpResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "follow_up";
  success: true;
  data?: Invoked;
}

export interface OmpGetAvailableModelsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_available_models";
  success: true;
  data: OmpModels;
}

export interface OmpGetMessagesPageResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_messages_page";
  success: true;
  data: OmpConversationPage;
}

export interface OmpGetMessagesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_messages";
  success: true;
  data: OmpConversation;
}

export interface OmpGetSessionStatsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_session_stats";
  success: true;
  data: OmpStats;
}

export interface OmpGetStateResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_state";
  success: true;
  data: OmpState;
}

export interface OmpHandoffResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "handoff";
  success: true;
  data: HandedOver | null;
}

export interface OmpLevelChanged {
  type: "thinking_level_changed";
  thinkingLevel: string;
}

export type OmpMessage = OmpUserMessage | OmpAssistantMessage | OmpToolResultMessage | OmpBashMessage | OmpCustomMessage | DeveloperMessage | BranchSummaryMessage | OmpCompactionSummary;

export interface OmpMessageEnd {
  type: "message_end";
  message: OmpMessage;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

export interface OmpMessageStart {
  type: "message_start";
  message: OmpMessage;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

/** `thinking` is there for models that think. */
export interface OmpModel {
  id: string;
  name: string;
  api: string;
  provider: string;
  baseUrl: string;
  reasoning: boolean;
  thinkingLevelMap?: Record<string, string | null>;
  input: ("image" | "text")[];
  inputLimits?: Record<string, unknown>;
  cost: ModelCost;
  promptCache?: Record<string, number>;
  contextWindow: number;
  maxTokens: number;
  samplingParams?: Record<string, unknown>;
  compat: Record<string, unknown>;
  supportsComputerUse: boolean;
  isOAuth?: boolean;
  thinking?: OmpThinking;
}

export interface OmpModels {
  models: OmpModel[];
}

export type OmpPiece = WholeTextStart | WholeTextDelta | WholeTextEnd | WholeThinkingStart | WholeThinkingDelta | WholeThinkingEnd | WholeToolcallStart | WholeToolcallDelta | OmpToolcallEnd;

export interface OmpPromptResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "prompt";
  success: true;
  data?: Invoked;
}

export interface OmpReady {
  type: "ready";
  protocolVersion: number;
  supportedProtocolVersions: number[];
  maxFrameBytes: number;
  maxReassembledFrameBytes: number;
}

/** `retryErrors` are those of all attempts; missing where the host ended them. */
export interface OmpRetryEnd {
  type: "auto_retry_end";
  success: boolean;
  attempt: number;
  finalError?: string;
  retryErrors?: RetryError[];
}

export interface OmpRetryStart {
  type: "auto_retry_start";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  errorMessage: string;
  errorId: number;
}

export interface OmpSetModelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_model";
  success: true;
  data: OmpModel;
}

export interface OmpState {
  model: OmpModel | null;
  thinkingLevel: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
  isStreaming: boolean;
  isCompacting: boolean;
  steeringMode: "all" | "one-at-a-time";
  followUpMode: "all" | "one-at-a-time";
  sessionFile?: string;
  sessionId: string;
  sessionName?: string;
  autoCompactionEnabled: boolean;
  messageCount: number;
  queuedMessageCount: number;
  todoPhases: TodoPhase[];
  hasPendingAsyncWork: boolean;
  fastModeEnabled: boolean;
  fastModeActive: boolean;
  interruptMode: "immediate" | "wait";
  tokensPerSecond: number | null;
  dumpTools: DumpedTool[];
  contextUsage: ContextFill | null;
  isSettled: boolean;
  systemPrompt: string[];
}

export interface OmpStats {
  sessionFile?: string;
  sessionId: string;
  userMessages: number;
  assistantMessages: number;
  toolCalls: number;
  toolResults: number;
  totalMessages: number;
  tokens: OmpTokens;
  cost: number;
  contextUsage: ContextFill | null;
  premiumRequests: number;
}

export interface OmpSteerResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "steer";
  success: true;
  data?: Invoked;
}

/** A message of a session file, which other programs may have written. */
export type OmpStoredMessage = OmpUserMessage | OmpAssistantMessage | OmpToolResultMessage | OmpBashMessage | OmpCustomMessage | DeveloperMessage | BranchSummaryMessage | OmpCompactionSummary | { role: string; [key: string]: unknown };

/** The thinking levels of a model, in the spellings of all clients of the family. */
export interface OmpThinking {
  mode: "budget" | "effort";
  efforts: string[];
  minLevel: string;
  maxLevel: string;
}

export interface OmpTokens {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
  reasoning: number;
}

/** `partialArgs` are the arguments as the model wrote them; `streamIndex` counts the calls. */
export interface OmpToolCall {
  type: "toolCall";
  id: string;
  name: string;
  arguments: unknown;
  thoughtSignature?: string;
  namespace?: string;
  partialArgs: string;
  streamIndex: number;
}

/** `isWarning` is there in xcsh only. */
export interface OmpToolEnd {
  type: "tool_execution_end";
  toolCallId: string;
  toolName: string;
  isError: boolean;
  result: OmpToolOutput;
  isWarning?: boolean;
}

/** `isError`: the result is an error with details. */
export interface OmpToolOutput {
  content: Part[];
  usage?: Usage;
  terminate?: boolean;
  details: unknown;
  isError?: boolean;
}

/** `isWarning` is there in xcsh only. */
export interface OmpToolResultMessage {
  role: "toolResult";
  toolCallId: string;
  toolName: string;
  content: Part[];
  details?: unknown;
  usage?: Usage;
  isError: boolean;
  timestamp: number;
  isWarning?: boolean;
}

export interface OmpToolUpdate {
  type: "tool_execution_update";
  toolCallId: string;
  toolName: string;
  args: Record<string, unknown>;
  partialResult: OmpToolOutput;
}

export interface OmpToolcallEnd {
  type: "toolcall_end";
  contentIndex: number;
  toolCall: OmpToolCall;
  partial: AssistantMessage;
}

export interface OmpTurnEnd {
  type: "turn_end";
  message: OmpAssistantMessage;
  toolResults: OmpToolResultMessage[];
}

/** The piece with the whole answer so far, twice. */
export interface OmpUpdate {
  type: "message_update";
  assistantMessageEvent: OmpPiece;
  message: AssistantMessage;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

/** `steering`: it came while the agent worked. */
export interface OmpUserMessage {
  role: "user";
  content: string | Part[];
  timestamp: number;
  attachments?: unknown;
  steering?: boolean;
  attribution: "user";
}

/**
 * Open a session: `new`, `last` (the latest of the folder), an id or a path.
 *
 * `env` replaces the server's environment for keys, tools and commands of this session.
 * `options` are those of the command line that concern a session, in camelCase.
 * `wait`: the run waits for this client if it reads too slowly. `isolated`: the session runs in a
 * process of its own. `traceparent`, `tracestate` and `baggage` are the trace context of prompts
 * that carry none.
 */
export interface OpenCommand {
  type: "open";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  cwd?: string | null;
  session?: string;
  env?: Record<string, string> | null;
  options?: Record<string, unknown> | null;
  role?: "control" | "view";
  wait?: boolean | null;
  isolated?: boolean;
  traceparent?: string | null;
  tracestate?: string | null;
  baggage?: string | null;
}

export interface OpenResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "open";
  success: true;
  data: SessionAttached;
}

export interface OpenSessionCommand {
  type: "open_session";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  sessionDir: string;
}

export interface OpenSessionResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "open_session";
  success: true;
  data: OpenedSession;
}

export interface OpenUrlRequest {
  type: "extension_ui_request";
  id: string;
  method: "open_url";
  url: string;
  launchUrl?: string;
  instructions?: string;
}

/** `resumed`: the folder held a conversation. */
export interface OpenedSession {
  cancelled: boolean;
  resumed: boolean;
  sessionId: string;
  sessionFile: string;
}

export type Part = Text | Image;

/** A task may be its text alone. */
export interface PhaseInput {
  tasks: (string | TaskInput)[];
  name?: string | null;
  id?: string | null;
}

export type Piece = TextStart | TextDelta | TextEnd | ThinkingStart | ThinkingDelta | ThinkingEnd | ToolcallStart | ToolcallDelta | ToolcallEnd;

/**
 * The piece alone; the whole is in `message_end`.
 *
 * `usage` is only absent for a host that asked for changes alone.
 */
export interface PieceUpdate {
  type: "message_update";
  usage?: Usage;
  assistantMessageEvent: Piece;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

export interface PingCommand {
  type: "ping";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface PingResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "ping";
  success: true;
}

export type PrivateFrame = OfSession & (HostToolCall | HostToolCancel | HostUriRequest | HostUriCancel | SessionSettled | PromptResult | ClientJoined | ClientLeft | SessionClosed | SessionMoved | SessionResync);

/** The progress of a subagent. `task` is its whole prompt, `assignment` its own part of it. */
export interface Progress {
  index: number;
  id: string;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  status: "aborted" | "completed" | "failed" | "pending" | "running";
  task: string;
  assignment: string;
  description?: string;
  currentTool?: string;
  recentTools: RecentTool[];
  recentOutput: string[];
  toolCount: number;
  requests: number;
  tokens: number;
  cost: number;
  durationMs: number;
  modelOverride?: string[];
  contextWindow?: number;
  resolvedModel?: string;
  resolvedModelIsFallback?: boolean;
  contextTokens?: number;
  extractedToolData?: Record<string, unknown[]>;
}

export interface ProgressPayload {
  index: number;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  task: string;
  assignment: string;
  parentToolCallId: string;
  detached: boolean;
  sessionFile: string;
  progress: Progress;
}

/** `streamingBehavior` is required while the agent runs. `outputSchema` is a JSON Schema: the answer is a value that fits it, in `structured_output`. */
export interface PromptCommand {
  type: "prompt";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  message: string;
  images?: ImageInput[] | null;
  attachments?: Attachment[] | null;
  streamingBehavior?: "followUp" | "steer" | null;
  outputSchema?: Record<string, unknown> | null;
  traceparent?: string | null;
  tracestate?: string | null;
  baggage?: string | null;
}

export interface PromptResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "prompt";
  success: true;
  data: Accepted;
}

/** The end of one prompt, for hosts that asked for it; `id` is that of the prompt. */
export interface PromptResult {
  type: "prompt_result";
  id?: unknown;
  agentInvoked: boolean;
  status: "aborted" | "completed" | "error";
  error?: Record<string, unknown>;
  sessionSettled: boolean;
}

/** The queued messages, emitted after every change of the queue. */
export interface QueueUpdate {
  type: "queue_update";
  steering: string[];
  followUp: string[];
}

/** The texts of the queued messages. */
export interface Queued {
  steering: string[];
  followUp: string[];
}

export interface RecentTool {
  tool: string;
  args: string;
  endMs: number;
}

export interface ReloadCommand {
  type: "reload";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
}

export interface ReloadResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "reload";
  success: true;
}

export interface RenameSessionCommand {
  type: "rename_session";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  sessionPath: string;
  name: string;
}

export interface RenameSessionResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "rename_session";
  success: true;
}

/** `session` if the command had it. `repeated`: the command was sent before. */
export interface Repeatable {
  /** The id of the session. */
  session?: string;
  repeated?: true;
}

export interface RetryError {
  attempt: number;
  errorMessage: string;
  errorId: number;
}

export interface RunShortcutCommand {
  type: "run_shortcut";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  key: string;
}

export interface RunShortcutResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "run_shortcut";
  success: true;
}

/** A shell command of a client; `output` is its end so far. */
export interface RunningShell {
  id?: unknown;
  output?: string;
}

/** A tool call without a stored result. One that has ended has `result` and `isError`. */
export interface RunningTool {
  toolCallId: string;
  toolName: string;
  args: unknown;
  partialResult?: unknown;
  result?: unknown;
  isError?: boolean;
}

export interface SelectRequest {
  type: "extension_ui_request";
  id: string;
  method: "select";
  title: string;
  options: string[];
  timeout?: number;
  toolName?: string;
  toolCallId?: string;
  args?: unknown;
  risk?: "execute" | "read" | "unknown" | "write";
  sessionId?: string;
}

/** The server ends; runs have this many seconds. */
export interface ServerClosing {
  type: "server_closing";
  seconds: number;
}

/** `frame` is the longest line in bytes, `inFlight` the number of unanswered commands. */
export interface ServerLimits {
  frame: number;
  inFlight: number;
  clients: number;
  clientsPerSession: number;
}

export type ServerReply = Repeatable & (PromptResponse | SteerResponse | FollowUpResponse | AbortResponse | AbortAndPromptResponse | ClearQueueResponse | NewSessionResponse | GetStateResponse | GetMessagesResponse | SetModelResponse | CycleModelResponse | GetAvailableModelsResponse | SetThinkingLevelResponse | CycleThinkingLevelResponse | GetAvailableThinkingLevelsResponse | SetSteeringModeResponse | SetFollowUpModeResponse | CompactResponse | SetAutoCompactionResponse | SetAutoRetryResponse | AbortRetryResponse | BashResponse | AbortBashResponse | GetSessionStatsResponse | ExportHtmlResponse | SwitchSessionResponse | ForkResponse | BranchResponse | CloneResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | FindFilesResponse | GetLastAssistantTextResponse | SetSessionNameResponse | GetCommandsResponse | CompleteCommandResponse | GetShortcutsResponse | RunShortcutResponse | SetLimitsResponse | SetProjectTrustResponse | ListSessionsResponse | RenameSessionResponse | DeleteSessionResponse | NavigateTreeResponse | ReloadResponse | GetCapabilitiesResponse | SetHostToolsResponse | SetHostUriSchemesResponse | HandoffResponse | OpenSessionResponse | SetFastModeResponse | SetInterruptModeResponse | SetTodosResponse | SetEventFilterResponse | SetPromptResultsResponse | NegotiateProtocolResponse | GetMessagesPageResponse | GetAvailableCommandsResponse | SetLocaleResponse | GetLoginProvidersResponse | LoginResponse | LogoutResponse | GetAuthStatusResponse | GetIntegrationsResponse | SetSubagentSubscriptionResponse | GetSubagentsResponse | GetSubagentMessagesResponse | CancelSubagentResponse | SteerSubagentResponse | GetMcpServersResponse | GetMcpToolsResponse | SetMcpServerResponse | SetMcpServersResponse | McpReconnectResponse | McpLoginResponse | McpLogoutResponse | FailedResponse | HelloResponse | OpenResponse | AttachResponse | DetachResponse | CloseResponse | ListResponse | ClientsResponse | PingResponse | ShutdownResponse);

/** The first line of the program on stdout; it is not sent to clients on sockets. */
export interface Serving {
  type: "serving";
  pid: number;
  socket?: string;
  url?: string;
}

/**
 * The answer to `open` and `attach`.
 *
 * `replay`: the missed frames follow, `replayed` of them. `snapshot`: the other fields describe
 * the session at the cursor. `more`: older entries exist; `get_entries` with `before` reads them.
 * `interrupted`: the last message waits for an answer, and no run makes it.
 */
export interface SessionAttached {
  session: string;
  role: "control" | "view";
  mode: "replay" | "snapshot";
  cursor: string;
  replayed?: number;
  state?: State;
  leafId?: string | null;
  entries?: StoredEntry[];
  more?: boolean;
  underway?: SessionWork;
  interrupted?: boolean;
}

/** `cancelled`: an extension refused the change. */
export interface SessionChange {
  cancelled: boolean;
}

/** The session was closed, and the client is not attached to it any more. */
export interface SessionClosed {
  type: "session_closed";
}

export type SessionCommand = ForSession & (PromptCommand | SteerCommand | FollowUpCommand | AbortCommand | AbortAndPromptCommand | ClearQueueCommand | NewSessionCommand | GetStateCommand | GetMessagesCommand | SetModelCommand | CycleModelCommand | GetAvailableModelsCommand | SetThinkingLevelCommand | CycleThinkingLevelCommand | GetAvailableThinkingLevelsCommand | SetSteeringModeCommand | SetFollowUpModeCommand | CompactCommand | SetAutoCompactionCommand | SetAutoRetryCommand | AbortRetryCommand | BashCommand | AbortBashCommand | GetSessionStatsCommand | ExportHtmlCommand | SwitchSessionCommand | ForkCommand | BranchCommand | CloneCommand | GetForkMessagesCommand | GetBranchMessagesCommand | GetEntriesCommand | GetTreeCommand | FindFilesCommand | GetLastAssistantTextCommand | SetSessionNameCommand | GetCommandsCommand | CompleteCommandCommand | GetShortcutsCommand | RunShortcutCommand | SetLimitsCommand | SetProjectTrustCommand | ExtensionUiResponseCommand | ListSessionsCommand | RenameSessionCommand | DeleteSessionCommand | NavigateTreeCommand | ReloadCommand | GetCapabilitiesCommand | SetHostToolsCommand | HostToolUpdateCommand | HostToolResultCommand | SetHostUriSchemesCommand | HostUriResultCommand | HandoffCommand | OpenSessionCommand | SetFastModeCommand | SetInterruptModeCommand | SetTodosCommand | SetEventFilterCommand | SetPromptResultsCommand | NegotiateProtocolCommand | GetMessagesPageCommand | GetAvailableCommandsCommand | SetLocaleCommand | GetLoginProvidersCommand | LoginCommand | LogoutCommand | GetAuthStatusCommand | GetIntegrationsCommand | SetSubagentSubscriptionCommand | GetSubagentsCommand | GetSubagentMessagesCommand | CancelSubagentCommand | SteerSubagentCommand | GetMcpServersCommand | GetMcpToolsCommand | SetMcpServerCommand | SetMcpServersCommand | McpReconnectCommand | McpLoginCommand | McpLogoutCommand);

export interface SessionInfo {
  type: "session_info";
  name: string;
  id: string;
  parentId: string | null;
  timestamp: string;
}

export interface SessionInfoChanged {
  type: "session_info_changed";
  name?: string;
}

/** A command in a prompt changed the name of the session. */
export interface SessionInfoUpdate {
  type: "session_info_update";
  title?: string;
  sessionId: string;
}

/** The session that the client is attached to has another id from now on. */
export interface SessionMoved {
  type: "session_moved";
  from: string;
  to: string;
}

/** One row of a session list; times are in Unix milliseconds. */
export interface SessionRecord {
  path: string;
  id: string;
  cwd: string;
  name?: string;
  parentSessionPath?: string;
  created: number;
  modified: number;
  messageCount: number;
  firstMessage: string;
}

/** The client was too far behind; `data` is a snapshot, and live frames follow it. */
export interface SessionResync {
  type: "resync";
  data: SessionAttached;
}

/** Nothing runs, is queued or will start without a command; sent once after each run. */
export interface SessionSettled {
  type: "session_settled";
}

export interface SessionStats {
  sessionFile?: string;
  sessionId: string;
  userMessages: number;
  assistantMessages: number;
  toolCalls: number;
  toolResults: number;
  totalMessages: number;
  tokens: TokenTotals;
  cost: number;
  contextUsage?: ContextUsage;
}

export interface SessionSummaries {
  sessions: SessionSummary[];
}

/** `title` is the name, else the beginning of the first prompt. */
export interface SessionSummary {
  session: string;
  path: string | null;
  cwd: string;
  name: string | null;
  state: "idle" | "running" | "stored" | "waiting";
  clients: number;
  dialogs: number;
  updated: string;
  title?: string;
}

/** The work that has begun and not ended; `message` is the answer so far. */
export interface SessionWork {
  message?: BegunMessage;
  tools?: RunningTool[];
  bash?: RunningShell[];
  steering?: string[];
  followUp?: string[];
  dialogs?: (SelectRequest | ConfirmRequest | InputRequest | EditorRequest)[];
  retry?: AutoRetryStart;
  compaction?: CompactionStart;
  statuses?: Record<string, string>;
  widgets?: SetWidgetRequest[];
  title?: string;
}

export interface Sessions {
  sessions: SessionRecord[];
}

export interface SetAutoCompactionCommand {
  type: "set_auto_compaction";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  enabled: boolean;
}

export interface SetAutoCompactionResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_auto_compaction";
  success: true;
}

export interface SetAutoRetryCommand {
  type: "set_auto_retry";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  enabled: boolean;
}

export interface SetAutoRetryResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_auto_retry";
  success: true;
}

export interface SetEditorTextRequest {
  type: "extension_ui_request";
  id: string;
  method: "set_editor_text";
  text: string;
}

/** Null or absent lifts the filter. With `usage` `changes`, updates of an answer have a `usage` only if it differs from that of the update before. */
export interface SetEventFilterCommand {
  type: "set_event_filter";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  events?: string[] | null;
  usage?: "all" | "changes" | null;
}

export interface SetEventFilterResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_event_filter";
  success: true;
  data: EventFilter;
}

export interface SetFastModeCommand {
  type: "set_fast_mode";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  enabled: boolean;
}

export interface SetFastModeResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_fast_mode";
  success: true;
  data: FastMode;
}

export interface SetFollowUpModeCommand {
  type: "set_follow_up_mode";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  mode: "all" | "one-at-a-time";
}

export interface SetFollowUpModeResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_follow_up_mode";
  success: true;
}

/** All tools at once; they replace those before. */
export interface SetHostToolsCommand {
  type: "set_host_tools";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  tools: HostTool[];
}

export interface SetHostToolsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_host_tools";
  success: true;
  data: HostToolNames;
}

/** All schemes at once; they replace those before. */
export interface SetHostUriSchemesCommand {
  type: "set_host_uri_schemes";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  schemes: HostUriScheme[];
}

export interface SetHostUriSchemesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_host_uri_schemes";
  success: true;
  data: HostUriSchemes;
}

export interface SetInterruptModeCommand {
  type: "set_interrupt_mode";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  mode: "immediate" | "wait";
}

export interface SetInterruptModeResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_interrupt_mode";
  success: true;
}

/** A limit that is absent or null is lifted. */
export interface SetLimitsCommand {
  type: "set_limits";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  maxTurns?: number | null;
  maxTokens?: number | null;
  maxCost?: number | null;
}

export interface SetLimitsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_limits";
  success: true;
  data: Limits;
}

export interface SetLocaleCommand {
  type: "set_locale";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  locale: string;
}

export interface SetLocaleResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_locale";
  success: true;
}

/** Change a server; what is absent or null stays. `save`: also in the user's mcp.json. */
export interface SetMcpServerCommand {
  type: "set_mcp_server";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  name: string;
  enabled?: boolean | null;
  exposure?: "auto" | "deferred" | "direct" | "hidden" | null;
  save?: boolean;
}

export interface SetMcpServerResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_mcp_server";
  success: true;
  data: McpServerAnswer;
}

/** Entries by name, in the form of mcp.json; they replace those of an earlier call. */
export interface SetMcpServersCommand {
  type: "set_mcp_servers";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  servers: Record<string, unknown>;
}

export interface SetMcpServersResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_mcp_servers";
  success: true;
  data: McpServers;
}

export interface SetModelCommand {
  type: "set_model";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  provider: string;
  modelId: string;
}

export interface SetModelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_model";
  success: true;
  data: Model;
}

export interface SetProjectTrustCommand {
  type: "set_project_trust";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  trusted: boolean;
  remember?: boolean;
}

export interface SetProjectTrustResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_project_trust";
  success: true;
}

export interface SetPromptResultsCommand {
  type: "set_prompt_results";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  enabled: boolean;
}

export interface SetPromptResultsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_prompt_results";
  success: true;
}

export interface SetSessionNameCommand {
  type: "set_session_name";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  name: string;
}

export interface SetSessionNameResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_session_name";
  success: true;
}

export interface SetStatusRequest {
  type: "extension_ui_request";
  id: string;
  method: "setStatus";
  statusKey: string;
  statusText?: string;
}

export interface SetSteeringModeCommand {
  type: "set_steering_mode";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  mode: "all" | "one-at-a-time";
}

export interface SetSteeringModeResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_steering_mode";
  success: true;
}

export interface SetSubagentSubscriptionCommand {
  type: "set_subagent_subscription";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  level: "events" | "off" | "progress";
}

export interface SetSubagentSubscriptionResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_subagent_subscription";
  success: true;
  data: Subscription;
}

export interface SetThinkingLevelCommand {
  type: "set_thinking_level";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  level: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
}

export interface SetThinkingLevelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_thinking_level";
  success: true;
}

export interface SetTitleRequest {
  type: "extension_ui_request";
  id: string;
  method: "setTitle";
  title: string;
}

export interface SetTodosCommand {
  type: "set_todos";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  phases: PhaseInput[];
}

export interface SetTodosResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_todos";
  success: true;
  data: Todos;
}

export interface SetWidgetRequest {
  type: "extension_ui_request";
  id: string;
  method: "setWidget";
  widgetKey: string;
  widgetLines?: string[];
  widgetPlacement?: "aboveEditor" | "belowEditor";
}

/** A key of an extension, written as in `ctrl+shift+x`. */
export interface ShortcutItem {
  key: string;
  description?: string;
  extensionPath: string;
}

export interface Shortcuts {
  shortcuts: ShortcutItem[];
}

/** `drain`: seconds that runs have to end. */
export interface ShutdownCommand {
  type: "shutdown";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  drain?: number | null;
}

export interface ShutdownResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "shutdown";
  success: true;
}

/** One item of `get_subagents`. */
export interface Snapshot {
  id: string;
  index: number;
  agent: string;
  agentSource: "bundled" | "project" | "user";
  description: string;
  status: "aborted" | "completed" | "failed" | "pending" | "running";
  task: string;
  assignment: string;
  sessionFile: string;
  lastUpdate: number;
  progress: Progress;
  parentToolCallId: string;
}

/** The origin of a command. */
export interface SourceInfo {
  path: string;
  source: string;
  scope: string;
  origin: string;
  baseDir?: string;
}

/** The same in the shape of some model providers. */
export interface SourcedImage {
  source: ImageSource;
  type?: "image";
}

/** `model` is null when none is selected; `todoPhases` is there once there was a plan. */
export interface State {
  model: Model | null;
  thinkingLevel: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
  isStreaming: boolean;
  isCompacting: boolean;
  steeringMode: "all" | "one-at-a-time";
  followUpMode: "all" | "one-at-a-time";
  sessionFile?: string;
  sessionId: string;
  sessionName?: string;
  autoCompactionEnabled: boolean;
  messageCount: number;
  pendingMessageCount: number;
  todoPhases?: TodoPhase[];
  hasPendingAsyncWork?: boolean;
  fastModeEnabled?: boolean;
  fastModeActive?: boolean;
}

export interface SteerCommand {
  type: "steer";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  message: string;
  images?: ImageInput[] | null;
  traceparent?: string | null;
  tracestate?: string | null;
  baggage?: string | null;
}

export interface SteerResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "steer";
  success: true;
  data: Accepted;
}

export interface SteerSubagentCommand {
  type: "steer_subagent";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  subagentId: string;
  message: string;
}

export interface SteerSubagentResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "steer_subagent";
  success: true;
}

/** The reason why an answer was cut after content. */
export interface StopDetails {
  type: string;
  category: string | null;
  explanation: string;
}

/** An entry of a session file, which other programs may have written. */
export type StoredEntry = MessageEntry | ModelChange | ThinkingLevelChange | Compaction | BranchSummary | UsageEntry | CustomEntry | CustomMessageEntry | Label | SessionInfo | { type: string; [key: string]: unknown };

/** A message of a session file, which other programs may have written. */
export type StoredMessage = UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage | CustomMessage | BranchSummaryMessage | CompactionSummaryMessage | { role: string; [key: string]: unknown };

/** The answer matched stream rules; one event for each hit. */
export interface StreamRuleHit {
  type: "ttsr_triggered";
  rules: (Record<string, unknown>)[];
}

/**
 * The answer to a prompt with `outputSchema`: a value that fits it, or why there is none.
 *
 * Comes once, after the last AgentEnd of the prompt and before its AgentSettled.
 */
export interface StructuredOutput {
  type: "structured_output";
  value?: unknown;
  error?: string;
}

/** Something happened in an agent's own session. */
export interface SubagentEvent {
  type: "subagent_event";
  payload: EventPayload;
}

/** An agent in the background began or ended. */
export interface SubagentLifecycle {
  type: "subagent_lifecycle";
  payload: LifecyclePayload;
}

/** The progress of a subagent; a few per second at most while an answer streams. */
export interface SubagentProgress {
  type: "subagent_progress";
  payload: ProgressPayload;
}

/** The running subagents. */
export interface Subagents {
  subagents: Snapshot[];
}

export interface Subscription {
  level: "events" | "off" | "progress";
}

export interface SummaryRetryFinished {
  type: "summarization_retry_finished";
}

export interface SummaryRetryScheduled {
  type: "summarization_retry_scheduled";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  errorMessage: string;
}

export interface SummaryRetryStart {
  type: "summarization_retry_attempt_start";
  source: "branchSummary" | "compaction" | "handoff";
  reason?: "manual" | "overflow" | "threshold";
}

export interface SwitchSessionCommand {
  type: "switch_session";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  sessionPath: string;
}

export interface SwitchSessionResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "switch_session";
  success: true;
  data: SessionChange;
}

export interface TaskInput {
  content: string;
  id?: string | null;
  status?: "abandoned" | "blocked" | "completed" | "in_progress" | "pending";
  notes?: string | null;
  blocker?: string | null;
}

export interface Text {
  type: "text";
  text: string;
  textSignature?: string;
  isDocument?: boolean;
}

/** Text to append. */
export interface TextDelta {
  type: "text_delta";
  contentIndex: number;
  delta: string;
}

/** The whole text. */
export interface TextEnd {
  type: "text_end";
  contentIndex: number;
  content: string;
}

/** A text begins; `contentIndex` is its place among the blocks of the message. */
export interface TextStart {
  type: "text_start";
  contentIndex: number;
}

export interface Thinking {
  type: "thinking";
  thinking: string;
  thinkingSignature?: string;
  redacted?: boolean;
}

/** Thinking to append. */
export interface ThinkingDelta {
  type: "thinking_delta";
  contentIndex: number;
  delta: string;
}

/** The whole thought. */
export interface ThinkingEnd {
  type: "thinking_end";
  contentIndex: number;
  content: string;
}

export interface ThinkingLevelChange {
  type: "thinking_level_change";
  thinkingLevel: string;
  id: string;
  parentId: string | null;
  timestamp: string;
}

export interface ThinkingLevelChanged {
  type: "thinking_level_changed";
  level: string;
}

export interface ThinkingStart {
  type: "thinking_start";
  contentIndex: number;
}

/** Finished todos were removed from the list. */
export interface TodoAutoClear {
  type: "todo_auto_clear";
}

export interface TodoPhase {
  id: string;
  name: string;
  tasks: TodoTask[];
}

/** The run would stop with open todos; it continues instead. */
export interface TodoReminder {
  type: "todo_reminder";
  todos: (Record<string, unknown>)[];
  attempt: number;
  maxAttempts: number;
}

export interface TodoTask {
  id: string;
  content: string;
  status: "abandoned" | "blocked" | "completed" | "in_progress" | "pending";
  notes?: string;
  blocker?: string;
}

export interface Todos {
  todoPhases: TodoPhase[];
}

export interface TokenTotals {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
}

export interface ToolCall {
  type: "toolCall";
  id: string;
  name: string;
  arguments: unknown;
  thoughtSignature?: string;
  namespace?: string;
}

/** End of a call, in order of completion; its message follows in call order. */
export interface ToolEnd {
  type: "tool_execution_end";
  toolCallId: string;
  toolName: string;
  result: ToolOutput;
  isError: boolean;
}

/** Result of a tool. `ends_run` ends the run after this batch if all results set it. */
export interface ToolOutput {
  content: Part[];
  details?: unknown;
  usage?: Usage;
  terminate?: boolean;
}

export interface ToolResultMessage {
  role: "toolResult";
  toolCallId: string;
  toolName: string;
  content: Part[];
  details?: unknown;
  usage?: Usage;
  isError: boolean;
  timestamp: number;
}

/** The partial result of a call; replaces the previous one. */
export interface ToolUpdate {
  type: "tool_execution_update";
  toolCallId: string;
  toolName: string;
  args: Record<string, unknown>;
  partialResult: ToolOutput;
}

/** More of the JSON text of the arguments. */
export interface ToolcallDelta {
  type: "toolcall_delta";
  contentIndex: number;
  delta: string;
}

/** The whole call. */
export interface ToolcallEnd {
  type: "toolcall_end";
  contentIndex: number;
  toolCall: ToolCall;
}

/** A call begins. Programs other than this one may leave out its id and name. */
export interface ToolcallStart {
  type: "toolcall_start";
  contentIndex: number;
  id?: string;
  toolName?: string;
}

/**
 * The session file of a subagent from a byte on, in whole lines, as stored.
 *
 * `reset`: the file is shorter than that, and was read from its start.
 */
export interface Transcript {
  sessionFile: string;
  fromByte: number;
  nextByte: number;
  reset: boolean;
  entries: (Record<string, unknown>)[];
  messages: (Record<string, unknown>)[];
}

export interface Trashed {
  movedTo: string;
}

export interface Tree {
  tree: TreeNode[];
  leafId: string | null;
}

/** An entry with all that follows it. `label` is a name that the user gave the place. */
export interface TreeNode {
  entry: StoredEntry;
  children: TreeNode[];
  label?: string;
  labelTimestamp?: string;
}

/** End of a turn, after the answer and all results of its tool calls. */
export interface TurnEnd {
  type: "turn_end";
  message: AssistantMessage;
  toolResults: ToolResultMessage[];
}

/** Start of a turn, before its injected messages and the model's answer. */
export interface TurnStart {
  type: "turn_start";
}

/** Tokens of one answer; `input` excludes tokens read from or written to the cache. */
export interface Usage {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  totalTokens: number;
  cost: Cost;
  cacheWrite1h?: number;
  reasoning?: number;
}

export interface UsageEntry {
  type: "usage";
  kind: string;
  provider: string;
  model: string;
  usage: Usage;
  note?: string;
  id: string;
  parentId: string | null;
  timestamp: string;
}

/** A user message. `attachments` are what a host of early pi sent, besides the content. */
export interface UserMessage {
  role: "user";
  content: string | Part[];
  timestamp: number;
  attachments?: unknown;
}

/** A warning: something failed that does not stop the program. */
export interface Warned {
  type: "warning";
  message: string;
}

/** `boot` changes when the server restarts. `known`: the server remembers this client. */
export interface Welcome {
  server: string;
  protocol: number;
  boot: string;
  client: string;
  known: boolean;
  limits: ServerLimits;
}

export type WholePiece = WholeTextStart | WholeTextDelta | WholeTextEnd | WholeThinkingStart | WholeThinkingDelta | WholeThinkingEnd | WholeToolcallStart | WholeToolcallDelta | WholeToolcallEnd;

export interface WholeTextDelta {
  type: "text_delta";
  contentIndex: number;
  delta: string;
  partial: AssistantMessage;
}

export interface WholeTextEnd {
  type: "text_end";
  contentIndex: number;
  content: string;
  partial: AssistantMessage;
}

export interface WholeTextStart {
  type: "text_start";
  contentIndex: number;
  partial: AssistantMessage;
}

export interface WholeThinkingDelta {
  type: "thinking_delta";
  contentIndex: number;
  delta: string;
  partial: AssistantMessage;
}

export interface WholeThinkingEnd {
  type: "thinking_end";
  contentIndex: number;
  content: string;
  partial: AssistantMessage;
}

export interface WholeThinkingStart {
  type: "thinking_start";
  contentIndex: number;
  partial: AssistantMessage;
}

export interface WholeToolcallDelta {
  type: "toolcall_delta";
  contentIndex: number;
  delta: string;
  partial: AssistantMessage;
}

export interface WholeToolcallEnd {
  type: "toolcall_end";
  contentIndex: number;
  toolCall: ToolCall;
  partial: AssistantMessage;
}

export interface WholeToolcallStart {
  type: "toolcall_start";
  contentIndex: number;
  id?: string;
  toolName?: string;
  partial: AssistantMessage;
}

/** The piece with the whole answer so far, twice. */
export interface WholeUpdate {
  type: "message_update";
  assistantMessageEvent: WholePiece;
  message: AssistantMessage;
  usage?: Usage;
  /** The same in all frames of a message; for hosts that want prompt results. */
  messageId?: string;
}

export interface XcshAbortAndPromptResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "abort_and_prompt";
  success: true;
  data?: Invoked;
}

export interface XcshBashResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "bash";
  success: true;
  data: OmpBashResult;
}

export interface XcshCompactResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "compact";
  success: true;
  data: OmpCompaction;
}

export interface XcshCycleModelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "cycle_model";
  success: true;
  data: OmpCycledModel | null;
}

/** A command was refused; `command` is `parse` if the line was none. */
export interface XcshFailedResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command?: string;
  success: false;
  /** For people. */
  error: string;
  /** For programs: see docs/protocol.md. */
  code?: string;
}

export interface XcshFollowUpResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "follow_up";
  success: true;
  data?: Invoked;
}

export interface XcshGetAvailableModelsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_available_models";
  success: true;
  data: OmpModels;
}

export interface XcshGetMessagesPageResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_messages_page";
  success: true;
  data: OmpConversationPage;
}

export interface XcshGetMessagesResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_messages";
  success: true;
  data: OmpConversation;
}

export interface XcshGetSessionStatsResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_session_stats";
  success: true;
  data: OmpStats;
}

export interface XcshGetStateResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "get_state";
  success: true;
  data: XcshState;
}

export interface XcshHandoffResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "handoff";
  success: true;
  data: HandedOver | null;
}

export interface XcshPromptResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "prompt";
  success: true;
  data?: Invoked;
}

export interface XcshReady {
  type: "ready";
  version: string;
}

export interface XcshSetModelResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "set_model";
  success: true;
  data: OmpModel;
}

export interface XcshState {
  model: OmpModel | null;
  thinkingLevel: "high" | "low" | "max" | "medium" | "minimal" | "off" | "xhigh";
  isStreaming: boolean;
  isCompacting: boolean;
  steeringMode: "all" | "one-at-a-time";
  followUpMode: "all" | "one-at-a-time";
  sessionFile?: string;
  sessionId: string;
  sessionName?: string;
  autoCompactionEnabled: boolean;
  messageCount: number;
  queuedMessageCount: number;
  todoPhases: TodoPhase[];
  hasPendingAsyncWork: boolean;
  fastModeEnabled: boolean;
  fastModeActive: boolean;
  interruptMode: "immediate" | "wait";
  tokensPerSecond: number | null;
  dumpTools: DumpedTool[];
  contextUsage: ContextFill | null;
  isSettled: boolean;
  systemPrompt: string;
}

export interface XcshSteerResponse {
  type: "response";
  /** Any JSON; it comes back unchanged. */
  id?: unknown;
  command: "steer";
  success: true;
  data?: Invoked;
}

export type Command = PromptCommand | SteerCommand | FollowUpCommand | AbortCommand | AbortAndPromptCommand | ClearQueueCommand | NewSessionCommand | GetStateCommand | GetMessagesCommand | SetModelCommand | CycleModelCommand | GetAvailableModelsCommand | SetThinkingLevelCommand | CycleThinkingLevelCommand | GetAvailableThinkingLevelsCommand | SetSteeringModeCommand | SetFollowUpModeCommand | CompactCommand | SetAutoCompactionCommand | SetAutoRetryCommand | AbortRetryCommand | BashCommand | AbortBashCommand | GetSessionStatsCommand | ExportHtmlCommand | SwitchSessionCommand | ForkCommand | BranchCommand | CloneCommand | GetForkMessagesCommand | GetBranchMessagesCommand | GetEntriesCommand | GetTreeCommand | FindFilesCommand | GetLastAssistantTextCommand | SetSessionNameCommand | GetCommandsCommand | CompleteCommandCommand | GetShortcutsCommand | RunShortcutCommand | SetLimitsCommand | SetProjectTrustCommand | ExtensionUiResponseCommand | ListSessionsCommand | RenameSessionCommand | DeleteSessionCommand | NavigateTreeCommand | ReloadCommand | GetCapabilitiesCommand | SetHostToolsCommand | HostToolUpdateCommand | HostToolResultCommand | SetHostUriSchemesCommand | HostUriResultCommand | HandoffCommand | OpenSessionCommand | SetFastModeCommand | SetInterruptModeCommand | SetTodosCommand | SetEventFilterCommand | SetPromptResultsCommand | NegotiateProtocolCommand | GetMessagesPageCommand | GetAvailableCommandsCommand | SetLocaleCommand | GetLoginProvidersCommand | LoginCommand | LogoutCommand | GetAuthStatusCommand | GetIntegrationsCommand | SetSubagentSubscriptionCommand | GetSubagentsCommand | GetSubagentMessagesCommand | CancelSubagentCommand | SteerSubagentCommand | GetMcpServersCommand | GetMcpToolsCommand | SetMcpServerCommand | SetMcpServersCommand | McpReconnectCommand | McpLoginCommand | McpLogoutCommand;

export type PiFrame = AgentStart | AgentEnd | TurnStart | TurnEnd | MessageStart | WholeUpdate | MessageEnd | AnyToolStart | ToolUpdate | ToolEnd | QueueUpdate | AgentSettled | AutoRetryStart | AutoRetryEnd | CompactionStart | CompactionEnd | SummaryRetryScheduled | SummaryRetryStart | SummaryRetryFinished | SessionInfoChanged | ThinkingLevelChanged | EntryAppended | BashUpdate | LimitReached | ExtensionError | Warned | ContextFilesUsed | McpServerChanged | StructuredOutput | HostToolCall | HostToolCancel | HostUriRequest | HostUriCancel | TodoReminder | TodoAutoClear | StreamRuleHit | CommandOutput | SessionInfoUpdate | ModelChanged | ConfigUpdate | PromptResult | SessionSettled | AgentWaiting | SubagentLifecycle | SubagentProgress | SubagentEvent | Chunk | Header | SelectRequest | ConfirmRequest | InputRequest | EditorRequest | NotifyRequest | SetStatusRequest | SetWidgetRequest | SetTitleRequest | SetEditorTextRequest | OpenUrlRequest | CancelRequest | PromptResponse | SteerResponse | FollowUpResponse | AbortResponse | AbortAndPromptResponse | ClearQueueResponse | NewSessionResponse | GetStateResponse | GetMessagesResponse | SetModelResponse | CycleModelResponse | GetAvailableModelsResponse | SetThinkingLevelResponse | CycleThinkingLevelResponse | GetAvailableThinkingLevelsResponse | SetSteeringModeResponse | SetFollowUpModeResponse | CompactResponse | SetAutoCompactionResponse | SetAutoRetryResponse | AbortRetryResponse | BashResponse | AbortBashResponse | GetSessionStatsResponse | ExportHtmlResponse | SwitchSessionResponse | ForkResponse | BranchResponse | CloneResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | FindFilesResponse | GetLastAssistantTextResponse | SetSessionNameResponse | GetCommandsResponse | CompleteCommandResponse | GetShortcutsResponse | RunShortcutResponse | SetLimitsResponse | SetProjectTrustResponse | ListSessionsResponse | RenameSessionResponse | DeleteSessionResponse | NavigateTreeResponse | ReloadResponse | GetCapabilitiesResponse | SetHostToolsResponse | SetHostUriSchemesResponse | HandoffResponse | OpenSessionResponse | SetFastModeResponse | SetInterruptModeResponse | SetTodosResponse | SetEventFilterResponse | SetPromptResultsResponse | NegotiateProtocolResponse | GetMessagesPageResponse | GetAvailableCommandsResponse | SetLocaleResponse | GetLoginProvidersResponse | LoginResponse | LogoutResponse | GetAuthStatusResponse | GetIntegrationsResponse | SetSubagentSubscriptionResponse | GetSubagentsResponse | GetSubagentMessagesResponse | CancelSubagentResponse | SteerSubagentResponse | GetMcpServersResponse | GetMcpToolsResponse | SetMcpServerResponse | SetMcpServersResponse | McpReconnectResponse | McpLoginResponse | McpLogoutResponse | FailedResponse;

export type Pi079Frame = AgentStart | AgentEnd | TurnStart | TurnEnd | MessageStart | ExactUpdate | MessageEnd | AnyToolStart | ToolUpdate | ToolEnd | QueueUpdate | AutoRetryStart | AutoRetryEnd | CompactionStart | FailedCompactionEnd | SessionInfoChanged | ThinkingLevelChanged | ExtensionError | HostToolCall | HostToolCancel | HostUriRequest | HostUriCancel | PromptResult | SessionSettled | SubagentLifecycle | SubagentProgress | SubagentEvent | Chunk | Header | SelectRequest | ConfirmRequest | InputRequest | EditorRequest | NotifyRequest | SetStatusRequest | SetWidgetRequest | SetTitleRequest | SetEditorTextRequest | OpenUrlRequest | CancelRequest | ExactPromptResponse | ExactSteerResponse | ExactFollowUpResponse | AbortResponse | ExactAbortAndPromptResponse | ClearQueueResponse | NewSessionResponse | ExactGetStateResponse | GetMessagesResponse | SetModelResponse | ExactCycleModelResponse | GetAvailableModelsResponse | SetThinkingLevelResponse | ExactCycleThinkingLevelResponse | ExactGetAvailableThinkingLevelsResponse | SetSteeringModeResponse | SetFollowUpModeResponse | CompactResponse | SetAutoCompactionResponse | SetAutoRetryResponse | AbortRetryResponse | BashResponse | AbortBashResponse | GetSessionStatsResponse | ExportHtmlResponse | SwitchSessionResponse | ExactForkResponse | BranchResponse | CloneResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | FindFilesResponse | ExactGetLastAssistantTextResponse | SetSessionNameResponse | ExactGetCommandsResponse | CompleteCommandResponse | GetShortcutsResponse | RunShortcutResponse | SetLimitsResponse | SetProjectTrustResponse | ListSessionsResponse | RenameSessionResponse | DeleteSessionResponse | NavigateTreeResponse | ReloadResponse | GetCapabilitiesResponse | SetHostToolsResponse | SetHostUriSchemesResponse | HandoffResponse | OpenSessionResponse | SetFastModeResponse | SetInterruptModeResponse | SetTodosResponse | SetEventFilterResponse | SetPromptResultsResponse | NegotiateProtocolResponse | GetMessagesPageResponse | GetAvailableCommandsResponse | SetLocaleResponse | GetLoginProvidersResponse | LoginResponse | LogoutResponse | GetAuthStatusResponse | GetIntegrationsResponse | SetSubagentSubscriptionResponse | GetSubagentsResponse | GetSubagentMessagesResponse | CancelSubagentResponse | SteerSubagentResponse | GetMcpServersResponse | GetMcpToolsResponse | SetMcpServerResponse | SetMcpServersResponse | McpReconnectResponse | McpLoginResponse | McpLogoutResponse | FailedResponse;

export type PiDeltaFrame = AgentStart | AgentEnd | TurnStart | TurnEnd | BegunStart | PieceUpdate | MessageEnd | AnyToolStart | ToolUpdate | ToolEnd | QueueUpdate | AgentSettled | AutoRetryStart | AutoRetryEnd | CompactionStart | FailedCompactionEnd | SummaryRetryScheduled | SummaryRetryStart | SummaryRetryFinished | SessionInfoChanged | ThinkingLevelChanged | EntryAppended | BashUpdate | LimitReached | ExtensionError | Warned | ContextFilesUsed | McpServerChanged | StructuredOutput | HostToolCall | HostToolCancel | HostUriRequest | HostUriCancel | TodoReminder | TodoAutoClear | StreamRuleHit | CommandOutput | SessionInfoUpdate | ModelChanged | ConfigUpdate | PromptResult | SessionSettled | AgentWaiting | SubagentLifecycle | SubagentProgress | SubagentEvent | Chunk | Header | SelectRequest | ConfirmRequest | InputRequest | EditorRequest | NotifyRequest | SetStatusRequest | SetWidgetRequest | SetTitleRequest | SetEditorTextRequest | OpenUrlRequest | CancelRequest | PromptResponse | SteerResponse | FollowUpResponse | AbortResponse | AbortAndPromptResponse | ClearQueueResponse | NewSessionResponse | GetStateResponse | GetMessagesResponse | SetModelResponse | CycleModelResponse | GetAvailableModelsResponse | SetThinkingLevelResponse | CycleThinkingLevelResponse | GetAvailableThinkingLevelsResponse | SetSteeringModeResponse | SetFollowUpModeResponse | CompactResponse | SetAutoCompactionResponse | SetAutoRetryResponse | AbortRetryResponse | BashResponse | AbortBashResponse | GetSessionStatsResponse | ExportHtmlResponse | SwitchSessionResponse | ForkResponse | BranchResponse | CloneResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | FindFilesResponse | GetLastAssistantTextResponse | SetSessionNameResponse | GetCommandsResponse | CompleteCommandResponse | GetShortcutsResponse | RunShortcutResponse | SetLimitsResponse | SetProjectTrustResponse | ListSessionsResponse | RenameSessionResponse | DeleteSessionResponse | NavigateTreeResponse | ReloadResponse | GetCapabilitiesResponse | SetHostToolsResponse | SetHostUriSchemesResponse | HandoffResponse | OpenSessionResponse | SetFastModeResponse | SetInterruptModeResponse | SetTodosResponse | SetEventFilterResponse | SetPromptResultsResponse | NegotiateProtocolResponse | GetMessagesPageResponse | GetAvailableCommandsResponse | SetLocaleResponse | GetLoginProvidersResponse | LoginResponse | LogoutResponse | GetAuthStatusResponse | GetIntegrationsResponse | SetSubagentSubscriptionResponse | GetSubagentsResponse | GetSubagentMessagesResponse | CancelSubagentResponse | SteerSubagentResponse | GetMcpServersResponse | GetMcpToolsResponse | SetMcpServerResponse | SetMcpServersResponse | McpReconnectResponse | McpLoginResponse | McpLogoutResponse | FailedResponse;

export type OmpFrame = AgentStart | OmpAgentEnd | TurnStart | OmpTurnEnd | OmpMessageStart | OmpUpdate | OmpMessageEnd | AnyToolStart | OmpToolUpdate | OmpToolEnd | OmpRetryStart | OmpRetryEnd | AutoCompactionStart | AutoCompactionEnd | OmpLevelChanged | LimitReached | ExtensionError | Notice | HostToolCall | HostToolCancel | HostUriRequest | HostUriCancel | TodoReminder | TodoAutoClear | StreamRuleHit | CommandOutput | SessionInfoUpdate | ModelChanged | OmpConfigUpdate | PromptResult | SessionSettled | SubagentLifecycle | SubagentProgress | SubagentEvent | OmpReady | CommandsUpdate | Chunk | Header | SelectRequest | ConfirmRequest | InputRequest | EditorRequest | NotifyRequest | SetStatusRequest | SetWidgetRequest | SetTitleRequest | SetEditorTextRequest | OpenUrlRequest | CancelRequest | OmpPromptResponse | OmpSteerResponse | OmpFollowUpResponse | AbortResponse | OmpAbortAndPromptResponse | ClearQueueResponse | NewSessionResponse | OmpGetStateResponse | OmpGetMessagesResponse | OmpSetModelResponse | OmpCycleModelResponse | OmpGetAvailableModelsResponse | SetThinkingLevelResponse | CycleThinkingLevelResponse | GetAvailableThinkingLevelsResponse | SetSteeringModeResponse | SetFollowUpModeResponse | OmpCompactResponse | SetAutoCompactionResponse | SetAutoRetryResponse | AbortRetryResponse | OmpBashResponse | AbortBashResponse | OmpGetSessionStatsResponse | ExportHtmlResponse | SwitchSessionResponse | ForkResponse | BranchResponse | CloneResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | FindFilesResponse | GetLastAssistantTextResponse | SetSessionNameResponse | GetCommandsResponse | CompleteCommandResponse | GetShortcutsResponse | RunShortcutResponse | SetLimitsResponse | SetProjectTrustResponse | ListSessionsResponse | RenameSessionResponse | DeleteSessionResponse | NavigateTreeResponse | ReloadResponse | GetCapabilitiesResponse | SetHostToolsResponse | SetHostUriSchemesResponse | OmpHandoffResponse | OpenSessionResponse | SetFastModeResponse | SetInterruptModeResponse | SetTodosResponse | SetEventFilterResponse | SetPromptResultsResponse | NegotiateProtocolResponse | OmpGetMessagesPageResponse | GetAvailableCommandsResponse | SetLocaleResponse | GetLoginProvidersResponse | LoginResponse | LogoutResponse | GetAuthStatusResponse | GetIntegrationsResponse | SetSubagentSubscriptionResponse | GetSubagentsResponse | GetSubagentMessagesResponse | CancelSubagentResponse | SteerSubagentResponse | GetMcpServersResponse | GetMcpToolsResponse | SetMcpServerResponse | SetMcpServersResponse | McpReconnectResponse | McpLoginResponse | McpLogoutResponse | OmpFailedResponse;

export type XcshFrame = AgentStart | OmpAgentEnd | TurnStart | OmpTurnEnd | OmpMessageStart | OmpUpdate | OmpMessageEnd | AnyToolStart | OmpToolUpdate | OmpToolEnd | OmpRetryStart | OmpRetryEnd | AutoCompactionStart | AutoCompactionEnd | LimitReached | ExtensionError | HostToolCall | HostToolCancel | HostUriRequest | HostUriCancel | TodoReminder | TodoAutoClear | StreamRuleHit | CommandOutput | SessionInfoUpdate | ModelChanged | OmpConfigUpdate | PromptResult | SessionSettled | SubagentLifecycle | SubagentProgress | SubagentEvent | XcshReady | Chunk | Header | SelectRequest | ConfirmRequest | InputRequest | EditorRequest | NotifyRequest | SetStatusRequest | SetWidgetRequest | SetTitleRequest | SetEditorTextRequest | OpenUrlRequest | CancelRequest | XcshPromptResponse | XcshSteerResponse | XcshFollowUpResponse | AbortResponse | XcshAbortAndPromptResponse | ClearQueueResponse | NewSessionResponse | XcshGetStateResponse | XcshGetMessagesResponse | XcshSetModelResponse | XcshCycleModelResponse | XcshGetAvailableModelsResponse | SetThinkingLevelResponse | CycleThinkingLevelResponse | GetAvailableThinkingLevelsResponse | SetSteeringModeResponse | SetFollowUpModeResponse | XcshCompactResponse | SetAutoCompactionResponse | SetAutoRetryResponse | AbortRetryResponse | XcshBashResponse | AbortBashResponse | XcshGetSessionStatsResponse | ExportHtmlResponse | SwitchSessionResponse | ForkResponse | BranchResponse | CloneResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | FindFilesResponse | GetLastAssistantTextResponse | SetSessionNameResponse | GetCommandsResponse | CompleteCommandResponse | GetShortcutsResponse | RunShortcutResponse | SetLimitsResponse | SetProjectTrustResponse | ListSessionsResponse | RenameSessionResponse | DeleteSessionResponse | NavigateTreeResponse | ReloadResponse | GetCapabilitiesResponse | SetHostToolsResponse | SetHostUriSchemesResponse | XcshHandoffResponse | OpenSessionResponse | SetFastModeResponse | SetInterruptModeResponse | SetTodosResponse | SetEventFilterResponse | SetPromptResultsResponse | NegotiateProtocolResponse | XcshGetMessagesPageResponse | GetAvailableCommandsResponse | SetLocaleResponse | GetLoginProvidersResponse | LoginResponse | LogoutResponse | GetAuthStatusResponse | GetIntegrationsResponse | SetSubagentSubscriptionResponse | GetSubagentsResponse | GetSubagentMessagesResponse | CancelSubagentResponse | SteerSubagentResponse | GetMcpServersResponse | GetMcpToolsResponse | SetMcpServerResponse | SetMcpServersResponse | McpReconnectResponse | McpLoginResponse | McpLogoutResponse | XcshFailedResponse;

export type PiEarlyFrame = AgentStart | EarlyAgentEnd | TurnStart | TurnEnd | MessageStart | EarlyUpdate | MessageEnd | AnyToolStart | EarlyToolEnd | EarlyCompaction | LimitReached | EarlyError | HostToolCall | HostToolCancel | HostUriRequest | HostUriCancel | TodoReminder | TodoAutoClear | StreamRuleHit | CommandOutput | SessionInfoUpdate | ModelChanged | ConfigUpdate | PromptResult | SessionSettled | SubagentLifecycle | SubagentProgress | SubagentEvent | BashEnd | Chunk | Header;

export type ServerCommand = SessionCommand | HelloCommand | OpenCommand | AttachCommand | DetachCommand | CloseCommand | ListCommand | ClientsCommand | PingCommand | ShutdownCommand;

export type ServerFrame = NumberedFrame | PrivateFrame | ServerReply | ServerClosing | Serving;

/** The frames by dialect. */
export interface Frames {
  "pi": PiFrame;
  "pi-0.79": Pi079Frame;
  "pi-delta": PiDeltaFrame;
  "omp": OmpFrame;
  "xcsh": XcshFrame;
  "pi-early": PiEarlyFrame;
}

/** The `data` of replies in the dialects of pi. */
export interface Answers {
  "prompt": Accepted;
  "steer": Accepted;
  "follow_up": Accepted;
  "abort": undefined;
  "abort_and_prompt": Accepted;
  "clear_queue": Queued;
  "new_session": SessionChange;
  "get_state": State;
  "get_messages": Conversation;
  "set_model": Model;
  "cycle_model": CycledModel | null;
  "get_available_models": Models;
  "set_thinking_level": undefined;
  "cycle_thinking_level": CycledLevel | null;
  "get_available_thinking_levels": Levels;
  "set_steering_mode": undefined;
  "set_follow_up_mode": undefined;
  "compact": CompactionResult;
  "set_auto_compaction": undefined;
  "set_auto_retry": undefined;
  "abort_retry": undefined;
  "bash": BashResult;
  "abort_bash": undefined;
  "get_session_stats": SessionStats;
  "export_html": Exported;
  "switch_session": SessionChange;
  "fork": Forked;
  "branch": Forked;
  "clone": SessionChange;
  "get_fork_messages": ForkMessages;
  "get_branch_messages": ForkMessages;
  "get_entries": Entries;
  "get_tree": Tree;
  "find_files": FoundFiles;
  "get_last_assistant_text": LastText;
  "set_session_name": undefined;
  "get_commands": CommandList;
  "complete_command": CommandCompletions | null;
  "get_shortcuts": Shortcuts;
  "run_shortcut": undefined;
  "set_limits": Limits;
  "set_project_trust": undefined;
  "list_sessions": Sessions;
  "rename_session": undefined;
  "delete_session": Trashed;
  "navigate_tree": Moved;
  "reload": undefined;
  "get_capabilities": Capabilities;
  "set_host_tools": HostToolNames;
  "set_host_uri_schemes": HostUriSchemes;
  "handoff": HandedOver;
  "open_session": OpenedSession;
  "set_fast_mode": FastMode;
  "set_interrupt_mode": undefined;
  "set_todos": Todos;
  "set_event_filter": EventFilter;
  "set_prompt_results": undefined;
  "negotiate_protocol": Negotiated;
  "get_messages_page": ConversationPage;
  "get_available_commands": CommandList;
  "set_locale": undefined;
  "get_login_providers": LoginProviders;
  "login": LoggedIn;
  "logout": LoggedOut;
  "get_auth_status": AuthStatuses;
  "get_integrations": Integrations;
  "set_subagent_subscription": Subscription;
  "get_subagents": Subagents;
  "get_subagent_messages": Transcript;
  "cancel_subagent": CancelledSubagent;
  "steer_subagent": undefined;
  "get_mcp_servers": McpServers;
  "get_mcp_tools": McpTools;
  "set_mcp_server": McpServerAnswer;
  "set_mcp_servers": McpServers;
  "mcp_reconnect": McpServers;
  "mcp_login": McpServerAnswer;
  "mcp_logout": McpLoggedOut;
}

/** The `data` of replies to the commands of the server. */
export interface ServerAnswers {
  "hello": Welcome;
  "open": SessionAttached;
  "attach": SessionAttached;
  "detach": undefined;
  "close": undefined;
  "list": SessionSummaries;
  "clients": AttachedClients;
  "ping": undefined;
  "shutdown": undefined;
}
