"""What document 004 demands of extensions and of their dialogs over the wire."""

from tests.conformance.sections import Section

EXTENSIONS = (
    Section(
        document="004",
        place="extension_error, lines 170 and 214-215",
        area="extensions",
        text="""
RPC4-extension-error-01 `extension_error` is sent when an extension has raised an error.
RPC4-extension-error-02 `extensionPath` is the file of the extension.
RPC4-extension-error-03 `event` is the event that it was handling.
RPC4-extension-error-04 `error` is the text of the error.
""",
    ),
    Section(
        document="004",
        place="拡張 UI プロトコル, lines 216-221",
        area="extensions",
        text="""
RPC4-ui-01 select, confirm, input and editor write an `extension_ui_request` and wait.
RPC4-ui-02 They wait until an `extension_ui_response` with the same `id` has come.
RPC4-ui-03 notify, setStatus, setWidget, setTitle and set_editor_text write a request and go on.
RPC4-ui-04 A dialog with `timeout` is settled with its default by the agent when time is up.
""",
    ),
    Section(
        document="004",
        place="拡張 UI プロトコル, lines 222-224",
        area="extensions",
        text="""
RPC4-ui-05 custom() returns nothing.
RPC4-ui-06 setWorkingMessage, setWorkingIndicator, setFooter, setHeader, setEditorComponent and
    setToolsExpanded do nothing.
RPC4-ui-07 getEditorText() returns an empty text.
RPC4-ui-08 getToolsExpanded() returns false.
RPC4-ui-09 pasteToEditor() does what setEditorText() does.
RPC4-ui-10 getAllThemes() returns an empty list.
RPC4-ui-11 getTheme() returns nothing.
RPC4-ui-12 setTheme() returns `success` false with an `error`.
RPC4-ui-13 The mode that an extension sees is `rpc`.
RPC4-ui-14 An extension sees that there is a user interface.
""",
    ),
    Section(
        document="004",
        place="拡張 UI リクエスト, lines 225-237",
        area="extensions",
        text="""
RPC4-ui-15 Every request has `type`, an `id` of its own and `method`.
RPC4-ui-16 select has `title`, `options` and perhaps `timeout` in milliseconds.
RPC4-ui-17 A select that is not answered in time gives the extension nothing.
RPC4-ui-18 select is answered by `value` or `cancelled`.
RPC4-ui-19 confirm has `title`, `message` and perhaps `timeout`.
RPC4-ui-20 confirm is answered by `confirmed` or `cancelled`.
RPC4-ui-21 input has `title` and perhaps `placeholder`.
RPC4-ui-22 input is answered by `value` or `cancelled`.
RPC4-ui-23 editor has `title` and perhaps `prefill`.
RPC4-ui-24 editor is answered by `value` or `cancelled`.
""",
    ),
    Section(
        document="004",
        place="notify to set_editor_text, lines 238-251",
        area="extensions",
        text="""
RPC4-ui-25 notify has `message` and `notifyType`: info, warning or error.
RPC4-ui-26 A missing `notifyType` means info.
RPC4-ui-27 setStatus has `statusKey` and `statusText`.
RPC4-ui-28 setStatus without `statusText` clears the item of that key.
RPC4-ui-29 setWidget has `widgetKey`, `widgetLines` and `widgetPlacement`.
RPC4-ui-30 setWidget without `widgetLines` clears the widget.
RPC4-ui-31 `widgetPlacement` is aboveEditor, the default, or belowEditor.
RPC4-ui-32 Only lists of texts are sent as widgets; factories of components are left aside.
RPC4-ui-33 setTitle has `title`.
RPC4-ui-34 set_editor_text has `text`.
""",
    ),
    Section(
        document="004",
        place="拡張 UI レスポンス, lines 252-257",
        area="extensions",
        text="""
RPC4-ui-35 A response has the `id` of its request.
RPC4-ui-36 `value` answers select, input and editor.
RPC4-ui-37 `confirmed` answers confirm.
RPC4-ui-38 `cancelled` closes any dialog: nothing for select, input and editor, false for confirm.
""",
    ),
)
