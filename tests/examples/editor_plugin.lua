-- What the plugin does in a real Neovim; the variable CASE says which of these to try.

local ludolf = require("ludolf")
local cases = {}

local function until_it_holds(what, holds)
  assert(vim.wait(20000, holds, 5), "never: " .. what)
end

local function rests()
  return not ludolf.is_running()
end

local function shown()
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_get_name(buffer):match("^ludolf://") then
      return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, true), "\n")
    end
  end
  return ""
end

local function shows(text)
  until_it_holds("shown: " .. text .. "\nbut:\n" .. shown(), function()
    return shown():find(text, 1, true) ~= nil
  end)
end

local function equal(actual, expected)
  assert(actual == expected, ("expected:\n%s\nbut:\n%s"):format(expected, actual))
end

function cases.an_answer_streams_into_a_buffer_beside_the_file()
  vim.cmd("edit a.txt")
  vim.cmd("Ludolf read a.txt")
  until_it_holds("rest", rests)
  equal(
    shown(),
    '## read a.txt\n\nI will read a.txt.\n\n▸ `read` {"path":"a.txt"} ✓\n\nHere is a.txt:\n```\nhi\n```'
  )
  equal(vim.fn.expand("%:t"), "a.txt")
end

function cases.the_selection_is_sent_with_its_place()
  vim.cmd("edit code.lua")
  vim.bo.filetype = "lua"
  vim.cmd("2,3Ludolf explain")
  until_it_holds("rest", rests)
  shows("It is code.")
end

function cases.an_answer_is_stopped()
  vim.cmd("Ludolf think")
  shows("Let me think")
  vim.cmd("LudolfAbort")
  until_it_holds("rest", rests)
  shows("*Stopped.*")
end

function cases.what_is_said_meanwhile_is_heard()
  -- Said while the agent waits for the editor.
  vim.api.nvim_create_autocmd("BufReadPost", { pattern = "code.lua", command = "Ludolf and this" })
  vim.cmd("Ludolf begin")
  until_it_holds("rest", rests)
  shows("Heard both.")
end

function cases.a_file_is_opened_at_a_line_by_the_agent()
  vim.cmd("Ludolf show me")
  until_it_holds("rest", rests)
  equal(vim.fn.expand("%:t"), "code.lua")
  equal(vim.api.nvim_win_get_cursor(0)[1], 2)
  shows("There.")
end

function cases.a_changed_file_is_read_again()
  vim.cmd("edit a.txt")
  vim.cmd("Ludolf write a.txt with new words")
  until_it_holds("rest", rests)
  equal(vim.api.nvim_buf_get_lines(0, 0, -1, true)[1], "new words")
end

function cases.questions_of_extensions_are_asked_and_answered()
  local asked = {}
  vim.ui.select = function(items, about, choose)
    table.insert(asked, about.prompt)
    choose(items[1])
  end
  vim.ui.input = function(about, answer)
    table.insert(asked, about.prompt)
    answer("blue")
  end
  local told
  vim.notify = function(text)
    told = text
  end
  ludolf.setup({ arguments = { "-e", "questions.py" } })
  vim.cmd("Ludolf /questions")
  until_it_holds("rest", rests)
  equal(told, "True red blue")
  equal(table.concat(asked, "|"), "Sure? Really.|Which?|Which else? ")
end

function cases.a_new_conversation_clears_the_buffer()
  vim.cmd("Ludolf hello")
  until_it_holds("rest", rests)
  vim.cmd("LudolfNew")
  until_it_holds("empty", function()
    return shown() == ""
  end)
end

function cases.a_program_that_is_not_there_is_told()
  local told
  vim.notify = function(text)
    told = text
  end
  ludolf.setup({ command = { "no-such-program" } })
  vim.cmd("Ludolf hello")
  equal(told, "Ludolf: cannot start no-such-program")
end

function cases.a_program_that_cannot_start_tells_why()
  local told
  vim.notify = function(text)
    told = text
  end
  ludolf.setup({ arguments = { "--model", "nobody/nothing" } })
  vim.cmd("Ludolf hello")
  until_it_holds("complaint", function()
    return told ~= nil
  end)
  assert(told:find('Model "nobody/nothing" not found', 1, true), told)
  assert(rests())
end

local ok, trouble = xpcall(cases[os.getenv("CASE")], debug.traceback)
if not ok then
  io.stderr:write(trouble .. "\n")
end
vim.cmd(ok and "qall!" or "cquit 1")
