"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51), version 0 (KIP-554).

A credential is one setting of its user in the metadata store, beside the user's quotas. Every
broker writes it itself. Keys and salts never leave the broker; an upsertion carries a salted
password, so that the broker never learns the password.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store.entities import USERS, quoted, split_user, unquoted
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.protocol.sasl.scram_record import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_BY_NUMBER,
    SCRAM_MECHANISMS,
    parse_record,
    record_from_salted,
)
from ottla.protocol.sasl.user_names import name_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )
    from ottla.protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
    )
    from ottla.protocol.sasl.scram_record import ScramMechanism

_TWICE = "A user credential cannot be altered twice in the same request"


def describe(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """The mechanisms and iterations of users, of all without names."""
    if not _is_allowed(services, context, Operation.DESCRIBE):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(error_code=error, error_message=error.text)
    counts = Counter(user.name for user in request.users or ())
    names = list(counts) or sorted(_users(services))
    return DescribeUserScramCredentialsResponse(
        results=[_described(services, name, counts[name]) for name in names]
    )


def _users(services: Services) -> Iterator[str]:
    """The users that have a credential."""
    for entity, texts in services.metadata.image.configs.items():
        user, client_id = split_user(entity.name)
        name = unquoted(user)
        is_user = entity.entity_type == USERS and client_id is None
        if is_user and name is not None and not SCRAM_MECHANISMS.keys().isdisjoint(texts):
            yield name


def _described(services: Services, name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        text = f"Cannot describe SCRAM credentials for the same user twice: {name}"
        return DescribeUserScramCredentialsResult(name, error, text)
    texts = services.metadata.image.configs.get(Entity(USERS, quoted(name)), {})
    found = [
        CredentialInfo(mechanism.number, _iterations(mechanism, texts))
        for mechanism in SCRAM_MECHANISMS.values()
        if mechanism.name in texts
    ]
    if not found:
        error = ErrorCode.RESOURCE_NOT_FOUND
        return DescribeUserScramCredentialsResult(
            name, error, f"Attempt to describe a user credential that does not exist: {name}"
        )
    return DescribeUserScramCredentialsResult(name, credential_infos=found)


def _iterations(mechanism: ScramMechanism, texts: Mapping[str, str]) -> int:
    try:
        return parse_record(mechanism, texts[mechanism.name]).iterations
    except ValueError:
        # Another program wrote it; its user cannot log in.
        return 0


async def alter(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Set and remove credentials, one of each user; each result says what became of it."""
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [
        *request.deletions,
        *request.upsertions,
    ]
    counts = Counter(change.name for change in changes)
    allowed = _is_allowed(services, context, Operation.ALTER)
    results = {}
    for change in changes:
        try:
            if not allowed:
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if counts[change.name] > 1:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            await _alter(services, change)
            results[change.name] = AlterUserScramCredentialsResult(change.name)
        except KafkaError as error:
            results[change.name] = AlterUserScramCredentialsResult(
                change.name, error.code, error.message
            )
    return AlterUserScramCredentialsResponse(results=list(results.values()))


async def _alter(
    services: Services, change: ScramCredentialDeletion | ScramCredentialUpsertion
) -> None:
    """Raises KafkaError."""
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = SCRAM_BY_NUMBER.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    text = _text_of(mechanism, change) if isinstance(change, ScramCredentialUpsertion) else None

    def edit(current: Mapping[str, str]) -> Mapping[str, str]:
        rest = {name: value for name, value in current.items() if name != mechanism.name}
        if text is not None:
            return {**rest, mechanism.name: text}
        if mechanism.name not in current:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return rest

    await services.admin.change_configs(USERS, quoted(change.name), edit)


def _text_of(mechanism: ScramMechanism, change: ScramCredentialUpsertion) -> str:
    """The credential as it is stored. Raises KafkaError."""
    problem = name_problem(change.name)
    if change.iterations < ITERATIONS_MIN:
        problem = f"Too few iterations: at least {ITERATIONS_MIN} are needed"
    elif change.iterations > ITERATIONS_MAX:
        problem = f"Too many iterations: at most {ITERATIONS_MAX} are allowed"
    elif not change.salt or not change.salted_password:
        problem = "The salt and the salted password must not be empty"
    if problem is not None:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    record = record_from_salted(
        mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations
    )
    return record.text()


def _is_allowed(services: Services, context: RequestContext, operation: Operation) -> bool:
    return services.authorizer.is_allowed(context, operation, AclResourceType.CLUSTER, CLUSTER_NAME)
