-- Commands of the plugin. Ludolf is started with the first prompt.

local function command(name, action, options)
  vim.api.nvim_create_user_command(name, action, options)
end

command("Ludolf", function(call)
  local selection = call.range > 0 and { call.line1, call.line2 } or nil
  require("ludolf").ask(call.args, selection)
end, { nargs = "+", range = true, desc = "Ask Ludolf, about the selected lines if there are any" })

command("LudolfAbort", function()
  require("ludolf").abort()
end, { desc = "Stop the answer" })

command("LudolfNew", function()
  require("ludolf").new()
end, { desc = "Begin a new conversation" })
