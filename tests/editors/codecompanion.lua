-- One prompt of codecompanion.nvim to `ludolf acp`.
-- Run by test_editors.py: `nvim --headless -u codecompanion.lua` in the folder of a project.
-- The last line of stdout is a JSON object with what the user saw.

local folder = vim.env.LUDOLF_TEST_EDITORS
for _, plugin in ipairs({ "plenary.nvim", "codecompanion.nvim" }) do
  vim.opt.runtimepath:append(folder .. "/" .. plugin)
end
vim.cmd("runtime plugin/codecompanion.lua")

-- A LuaJIT with the functions of Lua 5.2 also counts the main thread as running, and the plugin
-- asks only whether a coroutine runs.
local running = coroutine.running
coroutine.running = function()
  local thread, is_main = running()
  return not is_main and thread or nil
end

local function finish(report)
  io.stdout:write(vim.json.encode(report) .. "\n")
  io.stdout:flush()
  vim.cmd("qall!")
end

local function wait(what, test)
  if not vim.wait(60000, test, 20) then
    finish({ error = "waited too long for " .. what, messages = vim.fn.execute("messages") })
  end
end

local function main()
  require("codecompanion").setup({
    adapters = {
      acp = {
        ludolf = function()
          local helpers = require("codecompanion.adapters.acp.helpers")
          return {
            name = "ludolf",
            formatted_name = "Ludolf",
            type = "acp",
            roles = { llm = "assistant", user = "user" },
            opts = { vision = true },
            commands = { default = { "ludolf", "acp" } },
            defaults = { mcpServers = {}, timeout = 20000 },
            parameters = {
              protocolVersion = 1,
              clientCapabilities = { fs = { readTextFile = true, writeTextFile = true } },
              clientInfo = { name = "CodeCompanion.nvim", version = "1.0.0" },
            },
            handlers = {
              setup = function() return true end,
              form_messages = function(self, messages, capabilities)
                return helpers.form_messages(self, messages, capabilities)
              end,
              on_exit = function() end,
            },
          }
        end,
      },
    },
    interactions = { chat = { adapter = "ludolf" } },
  })
  vim.cmd.edit("notes.txt")
  local notes = vim.api.nvim_get_current_buf()
  local asked, is_done = {}, false
  local group = vim.api.nvim_create_augroup("editor_test", {})
  vim.api.nvim_create_autocmd("User", {
    group = group,
    pattern = "CodeCompanionToolApprovalRequested",
    callback = function(event) table.insert(asked, event.data.bufnr) end,
  })
  vim.api.nvim_create_autocmd("User", {
    group = group,
    pattern = "CodeCompanionChatDone",
    callback = function() is_done = true end,
  })
  local chat = require("codecompanion").chat()
  chat:add_buf_message({ role = "user", content = "Change the greeting" })
  chat:submit()
  wait("a question", function() return #asked > 0 end)
  local question = table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), "\n")
  -- The user presses the key for "Accept" in the chat.
  local key = require("codecompanion.interactions.chat.tools.labels").keymaps().accept
  wait("the key", function()
    return vim.fn.maparg(key, "n", false, true).buffer == 1
      or vim.api.nvim_buf_call(chat.bufnr, function()
        return vim.fn.maparg(key, "n", false, true).buffer == 1
      end)
  end)
  vim.api.nvim_buf_call(chat.bufnr, function()
    vim.fn.maparg(key, "n", false, true).callback()
  end)
  wait("the end of the turn", function() return is_done end)
  finish({
    question = question,
    asked = #asked,
    chat = table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), "\n"),
    buffer = table.concat(vim.api.nvim_buf_get_lines(notes, 0, -1, false), "\n"),
  })
end

vim.schedule(function()
  local ok, problem = xpcall(main, debug.traceback)
  if not ok then
    finish({ error = problem })
  end
end)
