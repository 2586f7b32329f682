"""An authority of a test's own, and certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates for names and addresses."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> str:
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, folder: Path, *names: str) -> tuple[Path, Path]:
        """The files of a certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        known = x509.SubjectAlternativeName([_general_name(name) for name in names])
        certificate = (
            self._builder(subject, key.public_key())
            .add_extension(known, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        certificate_file, key_file = folder / "server.pem", folder / "server.key"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
        return certificate_file, key_file

    def keystore(self, folder: Path, password: str, *names: str) -> Path:
        """A certificate and its key as Java servers want them."""
        files = [file.read_bytes() for file in self.issue(folder, *names)]
        certificate = x509.load_pem_x509_certificate(files[0])
        key = serialization.load_pem_private_key(files[1], None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        encryption = serialization.BestAvailableEncryption(password.encode())
        packed = pkcs12.serialize_key_and_certificates(b"server", key, certificate, [self._certificate], encryption)
        store = folder / "server.p12"
        store.write_bytes(packed)
        return store

    def server_context(self, folder: Path, *names: str) -> ssl.SSLContext:
        """What a server for these names speaks TLS with."""
        certificate, key = self.issue(folder, *names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
