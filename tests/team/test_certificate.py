"""A certificate that is its own authority."""

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from team.certificate import self_signed


def test_a_certificate_is_signed_by_its_own_key_for_its_name() -> None:
    pem, private = self_signed("s3")
    certificate = x509.load_pem_x509_certificate(pem)
    certificate.verify_directly_issued_by(certificate)
    assert load_pem_private_key(private, None).public_key() == certificate.public_key()
    assert certificate.subject.rfc4514_string() == "CN=s3"
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_certificate_is_good_on_a_clock_that_is_late_and_for_as_long_as_the_installation_lives() -> None:
    certificate = x509.load_pem_x509_certificate(self_signed("s3")[0])
    now = dt.datetime.now(dt.UTC)
    assert certificate.not_valid_before_utc <= now - dt.timedelta(hours=23)
    assert certificate.not_valid_after_utc >= now + dt.timedelta(days=365 * 90)


def test_two_certificates_share_no_key() -> None:
    assert self_signed("s3")[1] != self_signed("s3")[1]
