"""Names of tools that belong to no single agent: those of MCP servers, and of programs that several agents include.

Not here: the tools of one agent (its `spec`).
"""

from helix_assets.model.agent import Tools

SHARED_TOOLS = Tools(
    edit=("replace", "str_replace_based_edit_tool"),
    write=("create_file", "writefile"),
    delete=("delete", "delete_file", "remove_file"),
    read=("notebookread", "open_file", "read_text_file", "readfile", "view"),
    list=("file_search", "glob_file_search", "list_directory", "list_files"),
    search=("codebase_search", "grep_files", "grep_search", "search_file_content", "search_files"),
    plumbing=("*__*",),  # tools of MCP servers: `mcp__server__tool`, `server__tool`
)
