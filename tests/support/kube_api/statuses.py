"""How the API server says no: the ``Status`` object of each kind of failure."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """A failure that is answered with a ``Status``."""

    def __init__(
        self,
        code: int,
        message: str,
        reason: str = "",
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.headers = headers or {}
        self.body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.body["reason"] = reason
        if details is not None:
            self.body["details"] = details
        self.body["code"] = code


def success() -> dict[str, Any]:
    """Return the body of an eviction that was accepted."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }


def not_found(resource: str, name: str) -> ApiError:
    details = {"name": name, "kind": resource}
    return ApiError(404, f'{resource} "{name}" not found', "NotFound", details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, message, "BadRequest")


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def already_exists(resource: str, name: str) -> ApiError:
    details = {"name": name, "kind": resource}
    return ApiError(409, f'{resource} "{name}" already exists', "AlreadyExists", details)


def modified(resource: str, name: str) -> ApiError:
    message = (
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return ApiError(409, message, "Conflict", {"name": name, "kind": resource})


def other_uid(name: str, wanted: str, found: str) -> ApiError:
    message = (
        f'Operation cannot be fulfilled on Pod "{name}": the UID in the precondition ({wanted}) '
        f"does not match the UID in record ({found}). "
        "The object might have been deleted and then recreated"
    )
    return ApiError(409, message, "Conflict", {"name": name, "kind": "Pod"})


def invalid(
    kind: str,
    name: str,
    field: str,
    message: str,
    cause: str,
    *,
    times: int = 1,
    headers: dict[str, str] | None = None,
) -> ApiError:
    """Return a 422; the server repeats some causes, ``times`` says how often."""
    causes = [{"reason": cause, "message": message, "field": field}] * times
    return ApiError(
        422,
        f'{kind} "{name}" is invalid: {field}: {message}',
        "Invalid",
        {"name": name, "kind": kind, "causes": causes},
        headers,
    )


def patch_test_failed() -> ApiError:
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, message, "Invalid", {})


def unsupported_media_type() -> ApiError:
    return ApiError(415, "415: Unsupported Media Type", "UnsupportedMediaType", {})


def forbidden(
    resource: str, name: str, why: str, causes: list[dict[str, str]] | None = None
) -> ApiError:
    details: dict[str, Any] = {"name": name, "kind": resource}
    if causes:
        details["causes"] = causes
    return ApiError(403, f'{resource} "{name}" is forbidden: {why}', "Forbidden", details)


def namespace_terminating(resource: str, name: str, namespace: str) -> ApiError:
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(resource, name, why, [cause])


def over_budget(why: str, retry_after_seconds: int | None = None) -> ApiError:
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    headers = {}
    if retry_after_seconds is not None:
        details["retryAfterSeconds"] = retry_after_seconds
        headers["Retry-After"] = str(retry_after_seconds)
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, message, "TooManyRequests", details, headers)


def two_budgets() -> ApiError:
    return ApiError(
        500,
        "This pod has more than one PodDisruptionBudget, "
        "which the eviction subresource does not support.",
    )


def expired(message: str = "too old resource version: 1 (2)") -> ApiError:
    return ApiError(410, message, "Expired")


def store_timeout() -> ApiError:
    """Return the 504 of a store that is stuck: a ``Status`` that does not say so."""
    message = "Timeout: request did not complete within the allotted timeout"
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    error = ApiError(504, message, "Timeout", {}, headers)
    del error.body["kind"], error.body["apiVersion"]
    return error
