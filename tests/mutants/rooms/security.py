"""Bugs in authentication, authorization, quotas and the audit log."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    # Authorization.
    Mutant(
        "deny-is-ignored",
        "broker/authorization/index.py",
        '                    return AclDecision(False, "a rule denies it", rule)\n',
        "                    continue\n",
        "A rule that denies outweighs every rule that allows.",
        ("tests/broker/authorization/test_index.py",),
    ),
    Mutant(
        "prefixes-are-not-compared",
        "broker/authorization/index.py",
        "            found = prefixed.get(name[:length])\n",
        "            found = next((r for n, r in prefixed.items() if len(n) == length), None)\n",
        "A prefixed rule is about the names that begin with the prefix, and about no others.",
        ("tests/broker/authorization/test_index.py",),
    ),
    Mutant(
        "unreadable-rules-are-none",
        "broker/authorization/index.py",
        '            return AclDecision(False, "its rules are unreadable in the metadata store")\n',
        "            continue\n",
        "Rules that cannot be read deny everything that they could be about.",
        ("tests/broker/authorization/test_index.py",),
    ),
    Mutant(
        "everything-is-allowed-before-the-rules-are-loaded",
        "broker/authorization/authorizer.py",
        "_NOT_LOADED = AclDecision(False,",
        "_NOT_LOADED = AclDecision(True,",
        "Before the rules are loaded, the authorizer allows super users alone.",
        ("tests/broker/authorization/test_authorizer.py",),
    ),
    Mutant(
        "a-failed-decision-allows",
        "broker/authorization/authorizer.py",
        "_FAILED = AclDecision(False,",
        "_FAILED = AclDecision(True,",
        "What the authorizer cannot decide is denied.",
        ("tests/broker/authorization/test_authorizer.py",),
    ),
    Mutant(
        "decisions-outlive-their-rules",
        "broker/authorization/authorizer.py",
        "        self._stamp = (None,)\n        self._forget()\n",
        "        self._stamp = (None,)\n",
        "A remembered decision ends with the rules that it was made by.",
        ("tests/broker/authorization/test_authorizer.py",),
    ),
    Mutant(
        "a-client-id-makes-a-super-user",
        "broker/authorization/authorizer.py",
        "        decision = self._remembered.get(key)\n        if decision is True:\n",
        "        decision = self._remembered.get(key)\n"
        "        if f\"User:{getattr(caller, 'client_id', None)}\" in self._super_users:\n"
        "            return True\n"
        "        if decision is True:\n",
        "Only what was authenticated decides: nothing that a client writes about itself gives it "
        "rights.",
        ("tests/broker/authorization/test_authorizer.py",),
    ),
    # Logins.
    Mutant(
        "a-produce-needs-no-login",
        "broker/security/login_states.py",
        "    (LoginState.START, ApiKey.API_VERSIONS): LoginStep.TELL_VERSIONS,\n",
        "    (LoginState.START, ApiKey.API_VERSIONS): LoginStep.TELL_VERSIONS,\n"
        "    (LoginState.START, ApiKey.PRODUCE): LoginStep.TELL_VERSIONS,\n",
        "On a SASL listener no request but ApiVersions is served before the login.",
        ("tests/broker/security/test_login_rules.py", "tests/broker/security/test_login.py"),
    ),
    Mutant(
        "an-expired-session-goes-on",
        "broker/security/logins.py",
        "        self._sessions[connection].login.expire()\n",
        "        assert connection in self._sessions\n",
        "An expired session serves a new login and nothing else.",
        ("tests/broker/security/test_login.py",),
    ),
    Mutant(
        "a-session-outlives-its-credential",
        "broker/security/logins.py",
        "            if session.authenticated.credential == credential:\n",
        "            if session.authenticated.credential is credential:\n",
        "A session ends when the credential that it rests on is changed or deleted.",
        ("tests/broker/security/test_scram_users.py",),
    ),
    Mutant(
        "a-login-outlives-its-credential",
        "broker/security/exchanges.py",
        "        if before is None or now is None or now[0] != before[0]:\n",
        "        if before is None or now is None:\n",
        "A login under way ends when its credential is changed or deleted.",
        ("tests/broker/security/test_exchanges.py",),
    ),
    Mutant(
        "a-session-changes-its-user",
        "broker/security/login.py",
        "                self._check_same(authenticated)\n",
        "                assert authenticated.user\n",
        "A re-authentication keeps the user of the session.",
        ("tests/broker/security/test_login.py",),
    ),
    Mutant(
        "an-ending-of-the-nonce-is-enough",
        "protocol/sasl/scram.py",
        "        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):\n",
        "        if not nonce.endswith(self._own_nonce):\n",
        "A SCRAM proof is accepted with exactly the nonce of its login.",
        ("tests/protocol/sasl/test_scram.py",),
    ),
    Mutant(
        "a-made-up-record-lets-a-stranger-in",
        "protocol/sasl/scram.py",
        "        if not (is_right and self._is_genuine):\n",
        "        if not is_right:\n",
        "No proof of a user that does not exist is accepted.",
        ("tests/protocol/sasl/test_scram.py",),
    ),
    Mutant(
        "plain-believes-the-authorization-id",
        "protocol/sasl/plain.py",
        '        raise failed("the client asks for an authorization id that is not its user")\n',
        "        user = authorization_id\n",
        "An authorization id may only repeat the authenticated user.",
        ("tests/protocol/sasl/test_plain.py",),
    ),
    Mutant(
        "scram-believes-the-authorization-id",
        "protocol/sasl/scram.py",
        'raise failed("the client asks for an authorization id that is not its user")\n',
        "user = _name(authorization_id[2:])\n",
        "An authorization id may only repeat the authenticated user.",
        ("tests/protocol/sasl/test_scram.py",),
    ),
    Mutant(
        "an-expired-token-is-accepted",
        "broker/security/bearer_tokens.py",
        "    if expires_s + skew_s <= now_s:\n",
        "    if expires_s <= 0:\n",
        "A bearer token counts only with the signature, the issuer, the audience, the scopes and "
        "the time that the listener wants.",
        ("tests/broker/security/test_bearer_tokens.py",),
    ),
    Mutant(
        "a-token-for-another-audience-is-accepted",
        "broker/security/bearer_tokens.py",
        'set(settings.audiences) & set(_listed(claims.get("aud"))):\n',
        '_listed(claims.get("aud")):\n',
        "A bearer token counts only with the signature, the issuer, the audience, the scopes and "
        "the time that the listener wants.",
        ("tests/broker/security/test_bearer_tokens.py",),
    ),
    Mutant(
        "one-address-takes-all-places-of-logins",
        "broker/security/pending_logins.py",
        "        if self._by_host[host] >= self._per_host_max:\n",
        "        if self._per_host_max == 0:\n",
        "Connections that do not log in are limited in number, and the oldest one goes first.",
        ("tests/broker/security/test_login_rules.py",),
    ),
    # TLS.
    Mutant(
        "a-client-does-not-verify-the-broker",
        "wire/tls/contexts.py",
        "    if not settings.verifies:\n        context.verify_mode",
        "    if True:\n        context.check_hostname = False\n        context.verify_mode",
        "A client verifies the broker's certificate and name unless its settings say otherwise.",
        ("tests/wire/tls/test_stores.py", "tests/broker/security/test_tls_clients.py"),
    ),
    Mutant(
        "a-client-certificate-is-not-required",
        "wire/tls/contexts.py",
        '        is_required = settings.client_auth == "required"\n',
        '        is_required = settings.client_auth == "always"\n',
        "With ssl.client.auth=required, a client without a trusted certificate is refused.",
        ("tests/wire/tls/test_stores.py", "tests/broker/security/test_tls_clients.py"),
    ),
    Mutant(
        "a-rule-matches-a-part-of-the-subject",
        "broker/security/principals.py",
        "    found = rule.pattern.fullmatch(subject)",
        "    found = rule.pattern.search(subject)",
        "A mapping rule applies to the whole subject of a certificate.",
        ("tests/broker/security/test_principals.py",),
    ),
    # Quotas.
    Mutant(
        "quotas-are-never-active",
        "broker/quotas/quotas.py",
        "            self.is_active = self.table.limits_clients\n",
        "            self.is_active = False\n",
        "A client above its quota is held until its debt is paid.",
        ("tests/broker/api/test_throttling.py",),
    ),
    Mutant(
        "a-debt-is-forgiven",
        "broker/quotas/token_bucket.py",
        "        return 0.0 if self._level >= 0 else -self._level / self._rate\n",
        "        return 0.0\n",
        "A client above its quota is held until its debt is paid.",
        ("tests/broker/quotas/test_token_bucket.py",),
    ),
    Mutant(
        "clients-of-a-user-have-a-quota-each",
        "broker/quotas/client_limits.py",
        "        place = kind, limit.sharers\n",
        "        place = kind, limit.sharers, len(self._buckets)\n",
        "All clients that share a quota draw on one bucket.",
        ("tests/broker/quotas/test_client_limits.py",),
    ),
    # The audit log.
    Mutant(
        "refusals-are-not-in-the-audit-log",
        "broker/authorization/authorizer.py",
        "        if not found.is_allowed or operation in _CHANGES:\n",
        "        if operation in _CHANGES:\n",
        "Each refusal and each allowed change of the cluster reaches the audit log.",
        ("tests/broker/authorization/test_authorizer.py",),
    ),
    Mutant(
        "a-client-writes-lines-of-the-audit-log",
        "broker/security/audit.py",
        'text = json.dumps(line, separators=(",", ":"))\n',
        'text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)\n',
        "Nothing that a client sends can forge or break a line of the audit log.",
        ("tests/broker/security/test_audit.py",),
    ),
)
