"""One Files API over all vendors, code execution with files in and out, and approval before anything is saved."""

from belljar.files.anthropic_files import AnthropicFiles
from belljar.files.approval import (
    Approval,
    Proposal,
    Saved,
    approval_from_json,
    listing,
    proposals_as_json,
    propose,
    read_answer,
    rename_proposal,
    save,
    save_output_files,
)
from belljar.files.archive import zip_files
from belljar.files.base import FilesApiProvider
from belljar.files.cache import CachedUploads
from belljar.files.execution import CodeExecutionResponse, FailedUpload, run_code_execution
from belljar.files.gemini_files import GeminiFiles
from belljar.files.generation import (
    AssistantItem,
    CodeExecutionArgs,
    CodeExecutionResult,
    ExecutableCode,
    ExpectedResponseType,
    GenerateContentConfig,
    UploadedFile,
)
from belljar.files.limits import LIMITS, FileLimits
from belljar.files.openai_files import GatewayFiles, OpenAIFiles, XAIFiles
from belljar.files.project import Project
from belljar.files.registry import (
    FilesApiRegistry,
    files_api_of,
    get_files_api_provider,
    register_files_api_provider,
    why_no_files_api,
)
from belljar.files.results import CodeExecutionOutputFile, FileDownloadResult, FileMetadata, FileUploadResult, as_json

__all__ = [
    "LIMITS",
    "AnthropicFiles",
    "Approval",
    "AssistantItem",
    "CachedUploads",
    "CodeExecutionArgs",
    "CodeExecutionOutputFile",
    "CodeExecutionResponse",
    "CodeExecutionResult",
    "ExecutableCode",
    "ExpectedResponseType",
    "FailedUpload",
    "FileDownloadResult",
    "FileLimits",
    "FileMetadata",
    "FileUploadResult",
    "FilesApiProvider",
    "FilesApiRegistry",
    "GatewayFiles",
    "GeminiFiles",
    "GenerateContentConfig",
    "OpenAIFiles",
    "Project",
    "Proposal",
    "Saved",
    "UploadedFile",
    "XAIFiles",
    "approval_from_json",
    "as_json",
    "files_api_of",
    "get_files_api_provider",
    "listing",
    "proposals_as_json",
    "propose",
    "read_answer",
    "register_files_api_provider",
    "rename_proposal",
    "run_code_execution",
    "save",
    "save_output_files",
    "why_no_files_api",
    "zip_files",
]
