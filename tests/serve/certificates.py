"""Certificates for servers of tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_certificate(folder: Path, *more: str, days: int = 1) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and more names that is signed with its own key.

    It is valid for so many days from now; a negative number is one that has expired.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ludolf")])
    now = datetime.now(UTC)
    loopback = x509.IPAddress(ip_address("127.0.0.1"))
    names = x509.SubjectAlternativeName([loopback, *map(x509.DNSName, more)])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(key.private_bytes(*kinds, serialization.NoEncryption()))
    return files
