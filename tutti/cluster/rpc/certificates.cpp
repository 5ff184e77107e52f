#include "tutti/cluster/rpc/certificates.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>
#include <sstream>

#include "tutti/core/error.h"
#include "tutti/core/releaser.h"
#include "tutti/core/str.h"

namespace tutti::rpc {
namespace {

using Key = std::unique_ptr<EVP_PKEY, Releaser<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Releaser<X509_free>>;
using Text = std::unique_ptr<BIO, Releaser<BIO_free_all>>;

void require(bool is_done, const char* what) {
  if (is_done) return;
  char reason[256];
  ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
  throw Error(ErrorCode::internal, str("OpenSSL could not ", what, ": ", reason));
}

std::string text_of(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  require(key != nullptr, "make a key");
  return key;
}

// "DNS:node7,IP:10.0.0.7" from "node7,10.0.0.7".
std::string alternative_names(const std::string& hosts) {
  std::istringstream names(hosts);
  std::string text, name;
  while (std::getline(names, name, ',')) {
    in6_addr address;
    if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:*_") !=
                            std::string::npos)
      throw Error(ErrorCode::invalid_argument, str("'", name, "' is no name of a host"));
    const bool is_number =
        inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
    text += str(text.empty() ? "" : ",", is_number ? "IP:" : "DNS:", name);
  }
  return text;
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Releaser<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "add an extension");
}

Certificate begin_certificate(const std::string& name, EVP_PKEY* key, std::chrono::hours valid_for) {
  Certificate certificate(X509_new());
  uint8_t serial[16];
  require(certificate && RAND_bytes(serial, sizeof serial) == 1, "begin a certificate");
  serial[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Releaser<BN_free>> number(BN_bin2bn(serial, sizeof serial, nullptr));
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get()));
  X509_set_version(certificate.get(), 2);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -300);  // clocks differ a little
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), std::chrono::seconds(valid_for).count());
  X509_set_pubkey(certificate.get(), key);
  const std::string shown = name.substr(0, 64);  // the longest that a common name may be
  require(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(shown.c_str()), -1, -1, 0) == 1,
          "name a certificate");
  return certificate;
}

std::string to_pem(X509* certificate) {
  const Text text(BIO_new(BIO_s_mem()));
  require(PEM_write_bio_X509(text.get(), certificate) == 1, "write a certificate");
  return text_of(text.get());
}

std::string to_pem(EVP_PKEY* key) {
  const Text text(BIO_new(BIO_s_mem()));
  require(PEM_write_bio_PrivateKey(text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1, "write a key");
  return text_of(text.get());
}

std::string to_text(const ASN1_TIME* time) {
  const Text text(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(text.get(), time);
  return text_of(text.get());
}

}  // namespace

Certificates make_certificates(const std::vector<std::string>& hosts, std::chrono::hours valid_for) {
  const Key key = make_key();
  const Certificate authority = begin_certificate("tutti cluster authority", key.get(), valid_for);
  X509_set_issuer_name(authority.get(), X509_get_subject_name(authority.get()));
  add_extension(authority.get(), authority.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(authority.get(), authority.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  require(X509_sign(authority.get(), key.get(), EVP_sha256()) > 0, "sign a certificate");
  Certificates made{{to_pem(authority.get()), to_pem(key.get())}, {}};
  for (const std::string& host : hosts) {
    const std::string names = alternative_names(host);
    const Key own = make_key();
    const Certificate certificate = begin_certificate(host.substr(0, host.find(',')), own.get(), valid_for);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(authority.get()));
    add_extension(certificate.get(), authority.get(), NID_basic_constraints, "critical,CA:FALSE");
    add_extension(certificate.get(), authority.get(), NID_key_usage, "critical,digitalSignature");
    add_extension(certificate.get(), authority.get(), NID_ext_key_usage, "serverAuth,clientAuth");
    add_extension(certificate.get(), authority.get(), NID_subject_alt_name, names);
    require(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "sign a certificate");
    made.hosts.push_back({to_pem(certificate.get()), to_pem(own.get())});
  }
  return made;
}

std::optional<std::string> reason_to_refuse(const std::string& certificate) {
  const Text text(BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const Certificate read(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!read) return "it is no certificate in PEM form";
  const ASN1_TIME *from = X509_get0_notBefore(read.get()), *to = X509_get0_notAfter(read.get());
  if (X509_cmp_current_time(from) < 0 && X509_cmp_current_time(to) > 0) return {};
  const std::unique_ptr<ASN1_TIME, Releaser<ASN1_TIME_free>> now(ASN1_TIME_set(nullptr, std::time(nullptr)));
  return str("it holds from ", to_text(from), " to ", to_text(to), ", and the clock of this host says ",
             to_text(now.get()), ": set the clock, or make new ones (`tutti certificates`)");
}

}  // namespace tutti::rpc
