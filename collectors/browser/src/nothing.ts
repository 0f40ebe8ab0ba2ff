/** In place of Node's `crypto`, which @hpke/common asks for where there is no Web Cryptography. */
export {};
