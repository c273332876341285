"""The chart's admission policies at work: their CEL, evaluated on requests by a real evaluator."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from support.helm import Object, Render
from support.kube_api.admission import Policy
from support.kube_api.asking import Asking
from support.needs import leave_out

OPERATIONS = {"create": "CREATE", "patch": "UPDATE", "update": "UPDATE", "delete": "DELETE"}
NODE_NAME = "authentication.kubernetes.io/node-name"
VARIABLES = ("request", "object", "oldObject", "variables")


class CelError(Exception):
    """An expression cannot be evaluated; the text names it."""


@dataclass(frozen=True)
class Request:
    """What a policy is asked about.

    Attributes:
        operation: such as ``UPDATE``.
        resource: such as ``nodes/status``.
        user: the name of who asks.
        extra: what else the server knows of them; ``None`` for nothing at all.
        object: as it would be.
        old: as it was.
    """

    operation: str
    resource: str
    user: str
    extra: Mapping[str, list[str]] | None
    object: Object | None
    old: Object | None

    @property
    def review(self) -> Object:
        """The request as a policy sees it."""
        user: Object = {"username": self.user, "groups": ["system:authenticated"]}
        if self.extra is not None:
            user["extra"] = dict(self.extra)
        resource, _, subresource = self.resource.partition("/")
        return {
            "operation": self.operation,
            "resource": {"group": "", "version": "v1", "resource": resource},
            "subResource": subresource,
            "userInfo": user,
        }


@dataclass(frozen=True)
class ChartPolicy:
    """One policy that is bound.

    Attributes:
        name: of the policy.
        spec: of it, as the chart makes it.
    """

    name: str
    spec: Object

    def denial(self, request: Request) -> str | None:
        """Return why a request is denied; ``None`` where it is let pass.

        An expression that cannot be evaluated denies, too, by ``failurePolicy: Fail``.
        """
        try:
            return self._denial(request)
        except CelError as error:
            return str(error)

    def _denial(self, request: Request) -> str | None:
        if not self._is_meant(request):
            return None
        known: Object = {"request": request.review, "object": request.object}
        known |= {"oldObject": request.old, "variables": {}}
        if not all(_value(one["expression"], known) for one in self.spec["matchConditions"]):
            return None
        for variable in self.spec["variables"]:
            known["variables"][variable["name"]] = _value(variable["expression"], known)
        for validation in self.spec["validations"]:
            if _value(validation["expression"], known) is not True:
                return str(_message(validation, known))
        return None

    def expressions(self) -> Iterator[str]:
        """Yield all expressions of the policy."""
        for part in ("matchConditions", "variables", "validations"):
            for one in self.spec[part]:
                yield one["expression"]
                if "messageExpression" in one:
                    yield one["messageExpression"]

    def _is_meant(self, request: Request) -> bool:
        return any(
            request.operation in rule["operations"] and request.resource in rule["resources"]
            for rule in self.spec["matchConstraints"]["resourceRules"]
        )


def policies(rendered: Render) -> list[ChartPolicy]:
    """Return the policies that a binding puts into force."""
    bound = {
        one["spec"]["policyName"]
        for one in rendered.all("ValidatingAdmissionPolicyBinding")
        if one["spec"]["validationActions"] == ["Deny"]
    }
    found = rendered.all("ValidatingAdmissionPolicy")
    names = [(one["metadata"]["name"], one["spec"]) for one in found]
    return [ChartPolicy(name, spec) for name, spec in names if name in bound]


def denial(found: list[ChartPolicy], request: Request) -> str | None:
    """Return why one of the policies denies a request; ``None`` where all let it pass."""
    return next((why for one in found if (why := one.denial(request)) is not None), None)


def for_fake_server(policy: ChartPolicy, denied: list[str]) -> Policy:
    """Return the policy in the form that the tests' API server takes.

    Args:
        policy: of the chart.
        denied: takes why requests are denied.
    """

    def _denial(asking: Asking, old: Object, new: Object) -> str | None:
        node = asking.identity.node
        request = Request(
            OPERATIONS[asking.verb],
            asking.target.full,
            asking.identity.user,
            {NODE_NAME: [node]} if node else {},
            new or None,
            old or None,
        )
        why = policy.denial(request)
        denied.extend(() if why is None else (why,))
        return why

    return Policy(policy.name, _denial, policy.spec["validations"][0]["reason"])


def evaluator() -> Any:
    """Return the package that evaluates CEL, or leave the test out where it is not installed."""
    try:
        return importlib.import_module("cel_expr_python.cel")
    except ImportError:
        leave_out("needs a CEL evaluator: pip install cel-expr-python")


@cache
def compiled(expression: str) -> Any:
    """Return an expression, compiled; one that does not parse or check raises."""
    cel = evaluator()
    optional = importlib.import_module("cel_expr_python.ext.ext_optional")
    environment = cel.NewEnv(
        variables=dict.fromkeys(VARIABLES, cel.Type.DYN), extensions=[optional.ExtOptional()]
    )
    return environment.compile(expression)


def _value(expression: str, known: Mapping[str, Any]) -> Any:
    cel = evaluator()
    result = compiled(expression).eval(data=known)
    if result.type() == cel.Type.ERROR:
        raise CelError(f"{expression}: {result.value()}")
    return result.plain_value()


def _message(validation: Mapping[str, str], known: Mapping[str, Any]) -> Any:
    if "messageExpression" in validation:
        return _value(validation["messageExpression"], known)
    return validation["message"]
