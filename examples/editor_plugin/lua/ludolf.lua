-- Ludolf in Neovim: ask about a selection, stream the answer, abort it, answer dialogs.

local M = {}

local options = { command = { "ludolf" }, arguments = {} }
local job, rest, errors = nil, "", {}
local waiting, count = {}, 0 -- callbacks for replies, by command id
local running = false
local buffer

-- Tools that this editor provides to the agent, by name.
local tools = {}

function M.setup(given)
  options = vim.tbl_extend("force", options, given or {})
end

function M.is_running()
  return running
end

local function complain(text)
  vim.notify("Ludolf: " .. text, vim.log.levels.ERROR)
end

-- ------------------------------------------------------------ the buffer of the conversation

local function conversation()
  if not (buffer and vim.api.nvim_buf_is_valid(buffer)) then
    buffer = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(buffer, "ludolf://" .. buffer)
    vim.api.nvim_buf_set_option(buffer, "filetype", "markdown")
  end
  if vim.fn.bufwinid(buffer) == -1 then
    local before = vim.api.nvim_get_current_win()
    vim.cmd("botright vsplit")
    vim.api.nvim_win_set_buf(0, buffer)
    vim.wo.wrap, vim.wo.linebreak = true, true
    vim.api.nvim_set_current_win(before)
  end
  return buffer
end

-- Append to the end and scroll to it.
local function write(text)
  local target = conversation()
  local last = vim.api.nvim_buf_line_count(target) - 1
  local column = #vim.api.nvim_buf_get_lines(target, last, -1, true)[1]
  vim.api.nvim_buf_set_text(target, last, column, last, column, vim.split(text, "\n", { plain = true }))
  local window = vim.fn.bufwinid(target)
  vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(target), 0 })
end

-- Start a paragraph, unless the buffer is empty.
local function paragraph(text)
  local lines = vim.api.nvim_buf_get_lines(conversation(), -3, -1, false)
  local last = lines[#lines]
  local gap = last ~= "" and "\n\n" or (#lines > 1 and lines[#lines - 1] ~= "" and "\n" or "")
  write(gap .. text)
end

-- ------------------------------------------------------------ the program

local function send(frame)
  vim.fn.chansend(job, vim.json.encode(frame) .. "\n")
end

local function request(frame, on_reply)
  count = count + 1
  frame.id = "nvim-" .. count
  waiting[frame.id] = on_reply or function() end
  send(frame)
end

local function on_dialog(frame)
  local function answer(field)
    return function(value)
      local reply = { type = "extension_ui_response", id = frame.id }
      reply[value == nil and "cancelled" or field] = value == nil or value
      send(reply)
    end
  end
  if frame.method == "select" then
    vim.ui.select(frame.options, { prompt = frame.title }, answer("value"))
  elseif frame.method == "confirm" then
    vim.ui.select({ "Yes", "No" }, { prompt = frame.title .. " " .. frame.message }, function(choice)
      answer("confirmed")(choice and choice == "Yes")
    end)
  elseif frame.method == "input" or frame.method == "editor" then
    vim.ui.input({ prompt = frame.title .. " ", default = frame.prefill }, answer("value"))
  elseif frame.method == "notify" then
    local level = vim.log.levels[({ error = "ERROR", warning = "WARN" })[frame.notifyType] or "INFO"]
    vim.notify(frame.message, level)
  end
end

local function on_piece(piece)
  if piece.type == "text_start" then
    paragraph("")
  elseif piece.type == "text_delta" then
    write(piece.delta)
  end
end

local function on_message_end(message)
  if message.role == "assistant" and message.stopReason == "error" then
    paragraph("**Failed:** " .. (message.errorMessage or "no reason was given"))
  elseif message.role == "assistant" and message.stopReason == "aborted" then
    paragraph("*Stopped.*")
  end
end

local function on_tool_call(frame)
  local ok, text = pcall(tools[frame.toolName].run, frame.arguments)
  local result = { content = { { type = "text", text = tostring(text) } } }
  send({ type = "host_tool_result", id = frame.id, result = result, isError = not ok })
end

local handlers = {
  response = function(frame)
    local on_reply = waiting[frame.id]
    waiting[frame.id] = nil
    if on_reply then
      on_reply(frame)
    end
    if not frame.success then
      complain(frame.error)
    end
  end,
  agent_start = function()
    running = true
  end,
  message_update = function(frame)
    on_piece(frame.assistantMessageEvent)
  end,
  message_end = function(frame)
    on_message_end(frame.message)
  end,
  tool_execution_start = function(frame)
    paragraph("▸ `" .. frame.toolName .. "` " .. vim.json.encode(frame.args):gsub("\\/", "/"))
  end,
  tool_execution_end = function(frame)
    write(frame.isError and " ✗" or " ✓")
  end,
  host_tool_call = on_tool_call,
  extension_ui_request = on_dialog,
  agent_settled = function()
    running = false
    vim.cmd("checktime") -- reload files that the agent has changed
  end,
}

-- Handle chunks of stdout from Neovim: the first one completes the line of the chunk before.
local function on_stdout(_, chunks)
  rest = rest .. chunks[1]
  for index = 2, #chunks do
    local frame = vim.json.decode(rest, { luanil = { object = true, array = true } })
    rest = chunks[index]
    local handler = handlers[frame.type]
    if handler then
      handler(frame)
    end
  end
end

local function on_exit(_, code)
  job, running, rest, waiting = nil, false, "", {}
  if code ~= 0 then
    complain("ended with " .. code .. "\n" .. table.concat(errors, "\n"))
  end
  errors = {}
end

local function start()
  if job then
    return true
  end
  local words = { "--mode", "rpc", "--rpc-dialect", "pi-delta" }
  local command = vim.list_extend(vim.list_extend(vim.deepcopy(options.command), words), options.arguments)
  local ok, started = pcall(vim.fn.jobstart, command, {
    on_stdout = on_stdout,
    on_stderr = function(_, lines)
      vim.list_extend(errors, lines)
    end,
    on_exit = on_exit,
  })
  if not ok or started <= 0 then
    complain("cannot start " .. command[1])
    return false
  end
  job = started
  local lent = {}
  for name, tool in pairs(tools) do
    table.insert(lent, { name = name, description = tool.description, parameters = tool.parameters })
  end
  request({ type = "set_host_tools", tools = lent })
  return true
end

-- Return the lines as a fenced block; its fence is longer than any fence inside.
local function quoted(range)
  local lines = vim.api.nvim_buf_get_lines(0, range[1] - 1, range[2], false)
  local fence = "```"
  for run in table.concat(lines, "\n"):gmatch("`+") do
    fence = #run >= #fence and run .. "`" or fence
  end
  local place = ("%s, lines %d to %d:"):format(vim.fn.expand("%:."), range[1], range[2])
  return table.concat({ place, fence .. vim.bo.filetype, table.concat(lines, "\n"), fence }, "\n")
end

-- ------------------------------------------------------------ user commands

function M.ask(text, range)
  local message = range and (text .. "\n\n" .. quoted(range)) or text
  if not start() then
    return
  end
  paragraph("## " .. text .. "\n")
  -- A message during an answer is sent to the model with its next request.
  local behavior = running and "steer" or nil
  running = true
  request({ type = "prompt", message = message, streamingBehavior = behavior }, function(reply)
    if not reply.success or reply.data.disposition == "handled" then
      running = false
    end
  end)
end

function M.abort()
  if job then
    request({ type = "abort" })
  end
end

function M.new()
  if job then
    request({ type = "new_session" }, function(reply)
      if reply.success and not reply.data.cancelled then
        vim.api.nvim_buf_set_lines(conversation(), 0, -1, false, {})
      end
    end)
  end
end

tools.open_in_editor = {
  description = "Open a file in the user's editor, at a line",
  parameters = {
    type = "object",
    properties = { path = { type = "string" }, line = { type = "integer", minimum = 1 } },
    required = { "path" },
  },
  run = function(given)
    vim.cmd("topleft split " .. vim.fn.fnameescape(given.path))
    local last = vim.api.nvim_buf_line_count(0)
    vim.api.nvim_win_set_cursor(0, { math.min(given.line or 1, last), 0 })
    return "Opened " .. given.path
  end,
}

-- Close stdin and wait for the exit, so that the session is saved.
vim.api.nvim_create_autocmd("VimLeavePre", {
  callback = function()
    if job then
      local ending = job
      vim.fn.chanclose(ending, "stdin")
      vim.fn.jobwait({ ending }, 3000)
    end
  end,
})

return M
