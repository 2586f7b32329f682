"""Provides the catalogue: every tool that can be called, as one list of entries.

Sources (Python functions, data-defined tools, upstream servers, learned tools) plug in; callers see `ToolEntry` and
nothing else. Behind data-defined tools stand services, templates, secrets and health (`DefinedCatalog`). Names are
resolved on first use, so that a command which needs none of them does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.catalog.applying import AppliedCatalog, CatalogFiles
    from twinraven.catalog.bindings import Bindings, Endpoint, ToolBinding
    from twinraven.catalog.check_sql import CHECKS_KEPT, CheckBucket, CheckSummary
    from twinraven.catalog.defined_catalog import DefinedCatalog
    from twinraven.catalog.defined_tools import DefinedTools
    from twinraven.catalog.documents import plain_name
    from twinraven.catalog.effects import infer_effect
    from twinraven.catalog.functions import FunctionTool, FunctionTools, tool
    from twinraven.catalog.health import HealthChecks, HealthProbe
    from twinraven.catalog.health_monitor import HealthMonitor
    from twinraven.catalog.known_names import KnownNames
    from twinraven.catalog.lookup import Catalog, ToolSource
    from twinraven.catalog.model import (
        BATCH_READS,
        RUN_CODE,
        Effect,
        IdempotentBy,
        Sensitivity,
        ToolAnswer,
        ToolEntry,
    )
    from twinraven.catalog.operations import (
        GraphQuery,
        GraphRequest,
        LlmCall,
        McpCall,
        McpRequest,
        Operation,
        OperationType,
        PromptRequest,
        RestCall,
        read_operation,
    )
    from twinraven.catalog.ports import AuditCatalogChange, CatalogChange, SecretLookup, StepUsage, audited
    from twinraven.catalog.rest_request import RestRequest
    from twinraven.catalog.service_model import (
        HealthStatus,
        Service,
        ServiceChange,
        ServiceSpec,
        ServiceStructure,
        ServiceType,
        WireProtocol,
    )
    from twinraven.catalog.services import Services
    from twinraven.catalog.settings import ToolsSettings
    from twinraven.catalog.sql import SqlCatalogStore
    from twinraven.catalog.store import CatalogStore, Health
    from twinraven.catalog.template_model import Template, TemplateChange, TemplateKind, TemplateSpec
    from twinraven.catalog.templates import Templates
    from twinraven.catalog.tool_model import Tool, ToolChange, ToolPlacement, ToolSpec, ToolStructure
    from twinraven.catalog.tools import Tools
    from twinraven.catalog.version_sql import current_version, next_version
    from twinraven.catalog.yaml_file import CatalogFile, load_document, read_file

__all__ = [
    "BATCH_READS",
    "CHECKS_KEPT",
    "RUN_CODE",
    "AppliedCatalog",
    "AuditCatalogChange",
    "Bindings",
    "Catalog",
    "CatalogChange",
    "CatalogFile",
    "CatalogFiles",
    "CatalogStore",
    "CheckBucket",
    "CheckSummary",
    "DefinedCatalog",
    "DefinedTools",
    "Effect",
    "Endpoint",
    "FunctionTool",
    "FunctionTools",
    "GraphQuery",
    "GraphRequest",
    "Health",
    "HealthChecks",
    "HealthMonitor",
    "HealthProbe",
    "HealthStatus",
    "IdempotentBy",
    "KnownNames",
    "LlmCall",
    "McpCall",
    "McpRequest",
    "Operation",
    "OperationType",
    "PromptRequest",
    "RestCall",
    "RestRequest",
    "SecretLookup",
    "Sensitivity",
    "Service",
    "ServiceChange",
    "ServiceSpec",
    "ServiceStructure",
    "ServiceType",
    "Services",
    "SqlCatalogStore",
    "StepUsage",
    "Template",
    "TemplateChange",
    "TemplateKind",
    "TemplateSpec",
    "Templates",
    "Tool",
    "ToolAnswer",
    "ToolBinding",
    "ToolChange",
    "ToolEntry",
    "ToolPlacement",
    "ToolSource",
    "ToolSpec",
    "ToolStructure",
    "Tools",
    "ToolsSettings",
    "WireProtocol",
    "audited",
    "current_version",
    "infer_effect",
    "load_document",
    "next_version",
    "plain_name",
    "read_file",
    "read_operation",
    "tool",
]


__getattr__ = lazy_names(__name__)
